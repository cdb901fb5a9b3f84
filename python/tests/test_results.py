"""Results folders as frames."""

import importlib.util
import sys
from pathlib import Path

import polars
import pytest
import specdec_harness as specdec

RESULTS = Path(__file__).parents[2] / "results"
RUN = RESULTS / "03-verifiers/2026-11-22-amd-epyc-2c"


@pytest.mark.parametrize("frames", ["polars", "pandas"])
def test_a_committed_run(frames):
    if importlib.util.find_spec(frames) is None:
        pytest.skip(f"needs {frames}")
    run = specdec.load(RUN, frames=frames)
    assert {"summary", "survival", "rounds", "generations", "blocks", "texts"} <= set(run)
    assert type(run["summary"]).__module__.startswith(frames)
    assert run["rounds"] is run["rounds"]
    # The summary follows from the rounds.
    rounds, summary = run["rounds"], run["summary"]
    cell = list(summary["cell"])[3]
    own = (
        rounds.filter(polars.col("cell") == cell)
        if frames == "polars"
        else rounds[rounds["cell"] == cell]
    )
    rate = dict(zip(summary["cell"], summary["acceptance_rate"]))[cell]
    assert own["accepted"].sum() / own["proposed"].sum() == pytest.approx(rate)
    assert run.manifest["status"] == "finished"
    texts, generations = run["texts"], run["generations"]
    assert len(texts) == len(generations)
    assert [len(tokens) for tokens in texts["tokens"]] == list(generations["new_tokens"])
    # Its rows are packed, with times as decimals.
    assert isinstance(list(run["rounds"]["draft_us"])[0], float)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs tomllib")
def test_the_plan():
    plan = specdec.load(RUN).plan
    assert {cell["id"] for cell in plan["cells"]} == set(specdec.load(RUN)["summary"]["cell"])


@pytest.mark.parametrize(
    "run", sorted(RESULTS.glob("*/*/summary.csv")), ids=lambda path: path.parent.name
)
def test_every_committed_summary_is_read(run):
    assert len(specdec.load(run.parent)["summary"]) > 0


def test_superseded_attempts_are_left_out(tmp_path):
    rows = "cell,prompt,tokens_per_second,superseded\n1e5,'=1,2.5,false\n1e5,b,,true\n"
    (tmp_path / "generations.csv").write_text(rows)
    for frames in ("polars", "pandas"):
        if importlib.util.find_spec(frames) is None:
            continue
        kept = specdec.load(tmp_path, frames=frames)["generations"]
        # Names are strings, without what guards them in spreadsheets.
        assert list(kept["cell"]) == ["1e5"] and list(kept["prompt"]) == ["=1"]
        both = specdec.load(tmp_path, frames=frames, superseded=True)
        assert len(both["generations"]) == 2


@pytest.fixture(name="packed")
def a_packed_run(tmp_path):
    """The rounds of a run in two segments and a CSV file; one prompt looks like a formula."""
    rounds = specdec.load(RUN, frames="polars")["rounds"].head(900)
    rounds = rounds.with_columns(prompt=polars.col("prompt").replace("code-00", "=1"))
    rounds[:300].write_parquet(tmp_path / "rounds-00001.parquet")
    rounds[300:800].write_parquet(tmp_path / "rounds-00002.parquet")
    rounds[:10].write_parquet(tmp_path / "rounds-00003.parquet.partial")
    guarded = polars.col("prompt").str.replace("^=", "'=")
    rounds[800:].with_columns(guarded).write_csv(tmp_path / "rounds.csv")
    return tmp_path, rounds


@pytest.mark.parametrize("frames", ["polars", "pandas"])
def test_rows_of_long_tables_are_in_segments(packed, frames):
    for name in [frames, "pyarrow"][: 1 + (frames == "pandas")]:
        pytest.importorskip(name)
    folder, rounds = packed
    found = specdec.load(folder, frames=frames)["rounds"]
    assert list(found.columns) == rounds.columns
    for column in rounds.columns:
        # pandas has no empty numbers but NaN.
        values = [None if value != value else value for value in found[column].to_list()]
        assert values == rounds[column].to_list(), column
    # Once a segment has all rows, the CSV file has only its header, which shows no types.
    header = (folder / "rounds.csv").read_text().split("\n")[0]
    (folder / "rounds.csv").write_text(header + "\n")
    found = specdec.load(folder, frames=frames)["rounds"]
    assert len(found) == 800 and found["accepted"].sum() == rounds["accepted"][:800].sum()
    # Killed between the two steps of packing.
    rounds[300:800].write_csv(folder / "rounds.csv")
    found = specdec.load(folder, frames=frames)["rounds"]
    assert found["draft_us"].to_list() == rounds["draft_us"][:800].to_list()


def test_pandas_without_pyarrow(packed, monkeypatch):
    pytest.importorskip("pandas")
    run = specdec.load(packed[0], frames="pandas")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs pyarrow for rounds-00001.parquet: pip install"):
        run["rounds"]


def test_bad_input_is_one_sentence(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="is not a results folder: it holds no CSV file"):
        specdec.load(tmp_path)
    with pytest.raises(ValueError, match="allowed are polars and pandas"):
        specdec.load(RUN, frames="arrow")
    with pytest.raises(KeyError, match="has no table round: there are"):
        specdec.load(RUN)["round"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="load needs polars or pandas: pip install polars"):
        specdec.load(RUN)
