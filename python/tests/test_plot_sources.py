"""Figures of runs, tapes and forecasts: nothing is mixed."""

import csv
import re

import numpy as np
import pytest
import specdec_harness as specdec
from figures import LENGTHS, ROOT, TAPE, VERIFIERS, copied, drawn, edited, summary

pytest.importorskip("matplotlib")
pytest.importorskip("tomllib")


@pytest.mark.parametrize(
    ("run", "options", "parts"),
    [
        (LENGTHS, {}, ["drafter (model and prompt_lookup)", "temperature (0, 0.7 and 1)"]),
        (LENGTHS, {"line": "drafter"}, ['at={"temperature": 0}', 'facet="temperature"']),
        (
            VERIFIERS,
            {"line": "verifier", "at": {"temperature": 1, "K": 1}},
            ["tree (2, 3, 4 and –)"],
        ),
        (VERIFIERS, {"x": "temperature", "line": "verifier", "at": {"drafter": "model"}}, ["K (1"]),
        (TAPE / "tape.jsonl.gz", {"line": "verifier", "at": {"drafter": "model"}}, ["temperature"]),
        (TAPE / "forecast.csv", {"line": "drafter", "at": {"temperature": 1}}, ["verifier ("]),
    ],
)
def test_what_differs_is_not_mixed(run, options, parts):
    with pytest.raises(ValueError, match="the rows differ in") as found:
        specdec.plot(run, **options)
    for part in [*parts, "choose with at={", 'facet="']:
        assert part in str(found.value)


@pytest.mark.parametrize(
    ("file", "old", "new", "part"),
    [
        ("summary.csv", ",64,1,", ",32,1,", "max_tokens (32 and 64)"),
        (
            "summary.csv",
            "embedded-draft",
            "other-draft",
            "draft (embedded-draft, other-draft and –)",
        ),
        ("summary.csv", "embedded-target", "other", "target (embedded-target and other)"),
        ("summary.csv", "native,f32", "native,bf16", "dtype (bf16 and f32)"),
        ("summary.csv", "false,native", "false,candle", "engine (candle and native)"),
        ("manifest.json", "8be7cfcf", "11111111", "prompts (48 prompts (11111111) and"),
        ("plan.toml", "ignore_eos = true", "ignore_eos = false", "ignore_eos (false and true)"),
        ("manifest.json", "AMD EPYC", "Other", "machine (AMD EPYC and Other)"),
    ],
)
def test_runs_that_differ_are_not_mixed(tmp_path, file, old, new, part):
    """Catches: a variable of runs that is not compared, also where each line is one run's."""
    first, second = (copied(LENGTHS, tmp_path, name) for name in ("first", "second"))
    edited(second / file, old, new)
    for run, drafter in ((first, "prompt_lookup"), (second, "model")):
        text = (run / "summary.csv").read_text(encoding="utf-8").splitlines()
        # Lookups have no draft that could differ.
        kept = [line for line in text if f",{drafter}," not in line or part.startswith("draft")]
        (run / "summary.csv").write_text("\n".join(kept) + "\n", encoding="utf-8")
    at = {"temperature": 1}
    with pytest.raises(ValueError, match=re.escape(part)):
        specdec.plot([first, second], line="drafter", at=at)
    if part.startswith("machine"):
        # Tokens do not depend on it.
        assert len(specdec.plot([first, second], line="drafter", y="tau", at=at).axes) == 1
    # They may differ where they are drawn apart, and the caption describes both.
    both = specdec.plot([first, second], line=["run", "drafter"], at=at)
    assert "Run copies/first" in both.caption and "Run copies/second" in both.caption


def test_a_new_setting_counts_and_the_same_place_twice_is_refused(tmp_path):
    run = copied(LENGTHS, tmp_path)
    lines = (run / "summary.csv").read_text(encoding="utf-8").splitlines()
    values = ["mirostat", *(f"0.{number % 2}" for number in range(len(lines) - 1))]
    extended = [line.replace(",", f",{value},", 1) for line, value in zip(lines, values)]
    (run / "summary.csv").write_text("\n".join(extended) + "\n", encoding="utf-8")
    at = {"temperature": 1}
    with pytest.raises(ValueError, match=r"differ in mirostat \(0 and 0.1\)"):
        specdec.plot(run, line="drafter", at=at)
    with pytest.raises(ValueError, match="differ in run"):
        specdec.plot({"a": LENGTHS, "b": LENGTHS}, line="drafter", at=at)
    apart = specdec.plot({"a": LENGTHS, "b": LENGTHS}, line="run", at={**at, "drafter": "model"})
    assert list(drawn(apart.axes[0])) == ["a", "b"]


def test_tapes_have_the_values_of_their_forecast():
    at = {"drafter": "model", "temperature": 1}
    figure = specdec.plot(TAPE / "tape.jsonl.gz", line="verifier", at=at)
    # Without costs, a tape has no speedup.
    assert len(figure.axes) == 2 and "There are no intervals." in figure.caption
    found = specdec.forecast(TAPE / "tape.jsonl.gz").to_pandas()
    found = found[(found["sampling"] == "T = 1") & found["drafter"].str.startswith("model")]
    for verifier, (x, values, _) in drawn(figure.axes[1]).items():
        own = found[found["verifier"] == verifier]
        assert x.tolist() == own["num_speculative_tokens"].tolist()
        assert values.tolist() == own["block_efficiency"].tolist()
    # alpha is a number of the models: rejection alone shows it.
    alpha = drawn(figure.axes[0])
    own = found[found["verifier"] == "rejection"]
    assert alpha["rejection"][1].tolist() == own["conditional_acceptance"].tolist()
    assert np.isnan(alpha["traversal"][1]).all()
    for part in (
        "Forecast of tape.jsonl.gz: target embedded-target in f32, draft",
        "48 prompts",
        "48 sequences",
        "up to 64 tokens each (end of text ignored)",
        "seed 1",
        "specdec 0.1.0, commit 2a36334ba4b9, changed",
    ):
        assert part in figure.caption, part
    of_columns = specdec.plot(
        specdec.forecast(TAPE / "tape.jsonl.gz", ks=[12]),
        "sampling",
        "tau",
        line="verifier",
        at={"drafter": "model embedded-draft in q8_0"},
    )
    assert "144 sequences" in of_columns.caption
    twelve = specdec.plot(
        TAPE / "tape.jsonl.gz",
        "temperature",
        "tau",
        line="verifier",
        at={"drafter": "model", "K": 12},
    )
    ours, theirs = (drawn(figure.axes[0])["rejection"][1] for figure in (twelve, of_columns))
    assert ours.tolist() == theirs.tolist()


def test_tables_of_forecasts_have_intervals_and_speedups():
    at = {"drafter": "model", "temperature": 1, "verifier": "traversal"}
    figure = specdec.plot(TAPE / "forecast.csv", at=at, y=["tau", "speedup"])
    with open(TAPE / "forecast.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["temperature"] == "1.0"]
    rows = [row for row in rows if (row["drafter"], row["verifier"]) == ("model", "traversal")]
    for panel, column in zip(figure.axes, ("block_efficiency", "speedup")):
        ((_, values, ends),) = drawn(panel).values()
        assert values.tolist() == [float(row[column]) for row in rows]
        wanted = [[float(row[column + end]) for end in ("_lo", "_hi")] for row in rows]
        assert ends == pytest.approx(np.array(wanted), rel=1e-12)
    assert "Forecast of forecast.csv: draft embedded-draft, 48 prompts" in figure.caption


def test_a_run_and_its_tape_in_one_figure(tmp_path):
    at = {"drafter": "model", "verifier": "rejection", "temperature": 1}
    both = [TAPE, TAPE / "tape.jsonl.gz"]
    with pytest.raises(ValueError, match=r"differ in kind \(forecast and measured\)"):
        specdec.plot(both, at=at)
    figure = specdec.plot(both, line="kind", at=at, y="tau")
    lines = drawn(figure.axes[0])
    assert lines["forecast"][0].tolist() == list(range(1, 9))
    assert lines["measured"][0].tolist() == [1, 2, 3, 4, 6, 8]
    assert "8 of 14 values have none" in figure.caption
    # Their seeds differ by nature, models do not.
    run = copied(TAPE, tmp_path)
    edited(run / "summary.csv", "embedded-target", "other")
    with pytest.raises(ValueError, match=r"differ in target \(embedded-target and other\)"):
        specdec.plot([run, both[1]], line="kind", at=at, y="tau")


def test_several_runs_are_drawn_apart_by_what_they_differ_in():
    runs = [LENGTHS.parent / f"{LENGTHS.name}{end}" for end in ("", "-bf16", "-q8_0")]
    at = {"drafter": "model", "temperature": 0}
    with pytest.raises(ValueError, match=r"differ in dtype \(bf16, f32 and q8_0\)"):
        specdec.plot(runs, at=at)
    lines = drawn(specdec.plot(runs, line="dtype", at=at).axes[-1])
    for run, dtype in zip(runs, ("f32", "bf16", "q8_0")):
        rows = summary(run, drafter="model", temperature="0.0")
        assert lines[dtype][1].tolist() == [float(row["speedup"]) for row in rows]
    loaded = specdec.plot([specdec.load(run) for run in runs[:2]], line="dtype", at=at)
    assert list(drawn(loaded.axes[0])) == ["bf16", "f32"]


def test_settings_of_methods_are_settings():
    lossy = ROOT / "results/07-lossy-frontier/2026-11-22-amd-epyc-2c"
    with pytest.raises(ValueError, match="lenience has no value for model . rejection"):
        specdec.plot(lossy, "lenience", ["tv"], line="temperature")
    figure = specdec.plot(lossy, "lenience", "tv", line="temperature", at={"verifier": "lenient"})
    for t, (x, values, _) in drawn(figure.axes[0]).items():
        rows = summary(lossy, verifier="lenient", temperature=f"{float(t):.1f}")
        wanted = {float(row["params"].split("=")[1]): float(row["tv"]) for row in rows}
        assert dict(zip(x, values)) == wanted
