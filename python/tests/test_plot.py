"""Figures and tables: what they show is what the summaries have."""

import importlib.util
import re

import numpy as np
import pytest
import specdec_harness as specdec
from figures import LENGTHS, ROOT, TAPE, VERIFIERS, copied, drawn, edited, summary
from specdec_harness import _rows
from specdec_harness._choice import LABELS, NEUTRAL

pytest.importorskip("matplotlib")
pytest.importorskip("tomllib")

POLICIES = ROOT / "results/05-length-policies/2026-11-22-amd-epyc-2c"
CHAINS = {"K": 4, "drafter": "model"}
DISTURBED = "DISTURBED: 30 % of the blocks lost more than 10 % of their time."


def overlaps(boxes):
    return [(a, b) for i, a in enumerate(boxes) for b in boxes[i + 1 :] if a.overlaps(b)]


def test_values_and_intervals_are_those_of_the_summary():
    """Catches: another column, the half width of an interval drawn as its end, lines in the wrong
    order, rows of plain decoding, and axes that cut off what they show."""
    y = ["alpha", "tau", "speedup"]
    figure = specdec.plot(VERIFIERS, "temperature", y, line="verifier", at=CHAINS)
    assert len(figure.axes) == 3
    for panel, column in zip(figure.axes, ("alpha", "block_efficiency", "speedup")):
        lines = drawn(panel)
        assert list(lines) == ["rejection", "token_match", "traversal"]
        for verifier, (x, values, ends) in lines.items():
            rows = summary(
                VERIFIERS, verifier=verifier, num_speculative_tokens="4", drafter="model"
            )
            rows.sort(key=lambda row: float(row["temperature"]))
            assert x.tolist() == [0.0, 1.0, 1.5]
            assert values.tolist() == [float(row[column]) for row in rows]
            wanted = [[float(row[column + end]) for end in ("_lo", "_hi")] for row in rows]
            assert ends == pytest.approx(np.array(wanted), rel=1e-12)
            low, high = panel.get_ylim()
            assert low < ends.min() and ends.max() < high
    assert figure.axes[1].get_ylabel() == "block efficiency\n$\\tau$ (tokens/round)"
    assert figure.axes[-1].get_xlabel() == "temperature $T$"


def test_each_facet_has_its_rows():
    figure = specdec.plot(LENGTHS, line="drafter", facet="temperature", y="tau")
    assert [panel.get_title() for panel in figure.axes] == [
        f"temperature = {t}" for t in ("0", "0.7", "1")
    ]
    for panel, t in zip(figure.axes, ("0.0", "0.7", "1.0")):
        for drafter, (x, values, _) in drawn(panel).items():
            rows = summary(LENGTHS, drafter=drafter, temperature=t)
            wanted = {float(row["num_speculative_tokens"]): row["block_efficiency"] for row in rows}
            assert dict(zip(x, values)) == {k: float(tau) for k, tau in wanted.items()}


def test_plain_decoding_and_second_runs_are_left_out():
    assert any(row["control"] == "true" for row in summary(POLICIES))
    at = {"temperature": 1, "K": 8}
    figure = specdec.plot(POLICIES, "length", at=at)
    rows = {row["length"]: row for row in summary(POLICIES, temperature="1.0", control="false")}
    ((_, values, _),) = drawn(figure.axes[1]).values()
    assert len(values) == len(rows) == 7
    labels = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert labels == sorted(rows)
    plain = specdec.plot(POLICIES, "temperature", "tokens_per_second", at={"drafter": "none"})
    ((x, _, ends),) = drawn(plain.axes[0]).values()
    assert x.tolist() == [0.0, 0.7, 1.0] and len(ends) == 0


def test_pages_have_their_width_and_embedded_fonts(tmp_path):
    """Catches: Type 3 fonts, which publishers refuse, and a figure of another width."""
    for width, points in (("single", 3.3 * 72), ("double", 6.9 * 72), (5, 5 * 72)):
        file = tmp_path / f"{width}.pdf"
        figure = specdec.plot(VERIFIERS, "temperature", line="verifier", at=CHAINS, width=width)
        figure.save(file)
        page = file.read_bytes()
        assert figure._repr_png_().startswith(b"\x89PNG")
        assert b"/FontFile2" in page and b"/Type3" not in page
        box = re.search(rb"/MediaBox \[\s*0 0 ([\d.]+) ", page)
        assert float(box[1]) == pytest.approx(points)


def test_lines_differ_without_colour_and_labels_do_not_overlap():
    from specdec_harness._figure import LINES

    assert len({marker for _, marker, _ in LINES}) == len(LINES)
    channels = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour, _, _ in LINES]
    grey = [0.299 * r + 0.587 * g + 0.114 * b for r, g, b in channels[:3]]
    assert min(abs(a - b) for i, a in enumerate(grey) for b in grey[i + 1 :]) > 50
    trees = specdec.plot(VERIFIERS, "verifier", line="siblings", at={"temperature": 1, "tree": 2})
    three = specdec.plot(LENGTHS, line="drafter", facet="temperature", width="double")
    batches = specdec.plot(
        ROOT / "results/15-batch/2026-11-26-amd-epyc-2c", "batch", "speedup", line="K"
    )
    runs = [LENGTHS.parent / f"{LENGTHS.name}{end}" for end in ("", "-bf16", "-q8_0")]
    long = specdec.plot(runs, line="run", at={"drafter": "model", "temperature": 1})
    at = {"temperature": 1, "K": 8}
    policies = specdec.plot(POLICIES, "length", "tau", line="verifier", at=at)
    for figure in (trees, three, batches, long, policies):
        figure.canvas.draw()
        page = figure.bbox
        for panel in figure.axes:
            for axis in (panel.xaxis, panel.yaxis):
                ticks = [tick for tick in axis.get_ticklabels() if tick.get_text()]
                # Turned labels are parallel, so that their boxes say nothing.
                straight = [tick.get_window_extent() for tick in ticks if not tick.get_rotation()]
                assert not overlaps(straight)
        (legend,) = figure.legends
        around = legend.get_window_extent()
        assert around.x0 >= 0 and around.x1 <= page.x1
        assert not any(around.overlaps(panel.get_tightbbox()) for panel in figure.axes)
    chain = {"drafter": "model", "verifier": "rejection", "temperature": 1, "K": range(1, 17)}
    lengths = specdec.plot(TAPE / "tape.jsonl.gz", y="tau", at=chain)
    scales = [figure.axes[0].get_xscale() for figure in (batches, lengths)]
    assert scales == ["log", "linear"]
    with pytest.raises(ValueError, match="16 lines .K. are too many"):
        specdec.plot(
            TAPE / "tape.jsonl.gz",
            "temperature",
            line="K",
            at={"drafter": "model", "verifier": "rejection", "K": range(1, 17)},
        )


def test_a_caption_has_what_a_reader_must_know():
    caption = specdec.plot(VERIFIERS, "temperature", line="verifier", at=CHAINS).caption
    cells = summary(VERIFIERS, num_speculative_tokens="4", drafter="model")
    count = sum(int(row["generations"]) for row in cells)
    for part in (
        "α, τ and speedup by temperature, lines by verifier; ",
        "drafter = model, K = 4",
        "Error bars are 95 % intervals over prompts (Student's t with Hall's correction).",
        "Up to 42.1 % of the tokens of plain decoding lie in repetition loops.",
        "Run 03-verifiers/2026-11-22-amd-epyc-2c: ",
        "target embedded-target in f32, draft embedded-draft in q8_0",
        "48 prompts",
        f"{count} generations",
        "up to 64 tokens each (end of text ignored)",
        "seed 3",
        "specdec 0.1.0, commit bf0a8046b7be",
        "AMD EPYC with 2 threads",
    ):
        assert part in caption, part
    rates = specdec.plot(LENGTHS, y="acceptance_rate", at={"drafter": "model", "temperature": 1})
    assert "There are no intervals." in rates.caption and "loops" not in rates.caption


def test_named_columns_exist():
    """Catches: a column that has another name by now, and so loses its label or its part."""
    with open(TAPE / "forecast.csv", encoding="utf-8") as file:
        columns = {*file.readline().strip().split(","), *summary(LENGTHS)[0]}
    named = {*LABELS, *NEUTRAL, *_rows.TIMED, *_rows.NOT_SETTINGS} - {"kind"}
    assert named <= columns


@pytest.mark.parametrize(
    ("sentence", "note"),
    [
        (DISTURBED, "no verdict: disturbed"),
        ("Times are those of a virtual clock: they are set.", "no verdict: times are set"),
        (None, "no verdict: no report"),
    ],
)
def test_times_that_are_not_valid_are_not_shown_silently(tmp_path, sentence, note):
    """Catches: a speedup without its reason in panel, caption and table, or a reason without need;
    reports that say it in other words."""
    run, options = copied(LENGTHS, tmp_path), {"line": "drafter", "at": {"temperature": 1}}
    valid = specdec.plot(run, **options)
    assert not any(panel.get_title() for panel in valid.axes) and "verdict" not in valid.caption
    if sentence is None:
        (run / "report.md").unlink()
    else:
        edited(run / "report.md", "\n\nTarget ", f"\n\n**{sentence}**\n\nTarget ")
    figure = specdec.plot(run, **options)
    assert [panel.get_title() for panel in figure.axes] == ["", "", note]
    assert (sentence or "has no report.md") in figure.caption
    tokens = specdec.plot(run, y="tau", **options)
    assert not tokens.axes[0].get_title() and str(sentence) not in tokens.caption
    table = specdec.table(run, "K", y=["tau", "speedup"], at={"drafter": "model", "temperature": 1})
    assert list(table.columns) == ["τ", f"speedup ({note})"]
    source = (ROOT / "src/run/report/validity.rs").read_text(encoding="utf-8")
    sentences = re.search("fn sentence(.*?)fn predicate", source, re.DOTALL)[1]
    known = [sentences.count(f'"{start}') for start in _rows.WITHHELD]
    assert all(known) and sum(known) == sentences.count("Self::") == 3


def test_a_table_is_that_of_the_summary_and_latex_takes_it():
    table = specdec.table(VERIFIERS, y=["tau", "speedup"], at={**CHAINS, "temperature": 1})
    for verifier, row in table.iterrows():
        (own,) = summary(
            VERIFIERS,
            verifier=verifier,
            num_speculative_tokens="4",
            drafter="model",
            temperature="1.0",
        )
        for head, column in (("τ", "block_efficiency"), ("speedup", "speedup")):
            value, lo, hi = (float(own[column + end]) for end in ("", "_lo", "_hi"))
            assert row[head] == f"{value:.2f} [{lo:.2f}, {hi:.2f}]"
    assert "Brackets are 95 % intervals" in table.attrs["caption"]
    text = specdec.latex(table)
    assert text.splitlines()[:4] == [
        "\\begin{tabular}{lrr}",
        "\\toprule",
        "verifier & $\\tau$ & speedup \\\\",
        "\\midrule",
    ]
    assert (
        text.endswith("\\\\\n\\bottomrule\n\\end{tabular}\n") and "token\\_match & 1.45 [" in text
    )
    with pytest.raises(ValueError, match='differ in temperature .* with rows="temp.*or columns="'):
        specdec.table(VERIFIERS, at=CHAINS)
    wide = specdec.table(
        VERIFIERS,
        ["verifier", "K"],
        "temperature",
        "tau",
        at={"drafter": "model", "K": [1, 4]},
        digits=1,
    )
    assert wide.shape == (6, 3) and wide.index.names == ["verifier", "K"]
    assert wide.loc[("rejection", "4"), ("τ", "temperature = 1.5")] == "2.4 [2.3, 2.5]"
    lines = specdec.latex(wide).splitlines()
    assert (
        lines[2] == " &  & \\multicolumn{3}{c}{$\\tau$} \\\\" and lines[3] == "\\cmidrule(lr){3-5}"
    )
    assert specdec.latex("95 % of q8_0 & α") == "95 \\% of q8\\_0 \\& $\\alpha$"


def plain(folder):
    """A run of plain decoding alone."""
    run = copied(LENGTHS, folder)
    text = (run / "summary.csv").read_text(encoding="utf-8").splitlines()
    (run / "summary.csv").write_text("\n".join(text[:2]) + "\n", encoding="utf-8")
    return run


def test_bad_input_is_one_sentence(tmp_path, monkeypatch):
    def refused(why, *sources, error=ValueError, **options):
        with pytest.raises(error, match=why) as found:
            specdec.plot(*sources, **options)
        assert "\n" not in str(found.value)

    refused('unknown setting "temprature" .did you mean "temperature".', LENGTHS, "temprature")
    refused('unknown setting "kk"', LENGTHS, at={"kk": 1})
    refused(
        'unknown metric "speedups" .did you mean "speedup"',
        LENGTHS,
        y="speedups",
        at={"drafter": "model", "temperature": 1},
    )
    refused('unknown metric "tv"', LENGTHS, y="tv", at={"drafter": "model", "temperature": 1})
    refused("no row has K = 5: allowed are 1, 2, 3, 4, 6 and 8", LENGTHS, at={"K": 5})
    refused("width is 'column': allowed are single, double", LENGTHS, width="column")
    refused("sources is empty: there is nothing", [])
    refused("two sources are called 01-draft-length/2026-11-22-amd-epyc-2c: name", [LENGTHS] * 2)
    refused('no row has a draft: at={"drafter": "none"}', plain(tmp_path))
    refused("missing does not exist", tmp_path / "missing", error=FileNotFoundError)
    refused("has no summary.csv: specdec report", tmp_path, error=FileNotFoundError)
    refused(
        "is not a table of specdec report", ROOT / "results/13-determinism/2026-11-24-intel-xeon-2c"
    )
    refused("is not a table of specdec forecast", TAPE / "costs.csv")
    (tmp_path / "mine.jsonl").write_text("{}\n")
    refused("mine.jsonl: line 1: not a line of a tape", tmp_path / "mine.jsonl")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    refused(
        r"^plot needs matplotlib: pip install 'specdec-harness\[plot\]'$",
        LENGTHS,
        error=ImportError,
    )
    with pytest.raises(ImportError, match=r"^table needs pandas: pip install .*\[pandas\]'$"):
        specdec.table(LENGTHS)
