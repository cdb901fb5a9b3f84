"""What a figure or a table shows, in words for its caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specdec_harness._choice import NEUTRAL, distinct, listed, name, settings_of, shown
from specdec_harness._rows import TIMED, WITHHELD, Row, Source

#: Settings that the sentence on each source has.
OF_SOURCES = {"run", "target", "dtype", "draft", "draft_dtype", "engine", "max_tokens", "seed"}
OF_SOURCES |= {"prompts", "ignore_eos", "machine", "threads"}
#: Speedups on more loops than this share of plain decoding say little about other text.
MOST_LOOPS = 0.1
#: What shows the values of settings.
FORMS = {"x": "by {}", "line": "lines by {}", "facet": "panels by {}"}
FORMS |= {"rows": "by {}", "columns": "columns by {}"}


def caption(
    sources: Sequence[Source],
    rows: Sequence[Row],
    drawn: Mapping[str, tuple[str, ...]],
    y: Sequence[str],
) -> str:
    """Metrics, fixed settings, intervals, and models, prompts, seed and commit of each source."""
    parts = [FORMS[role].format(_names(names)) for role, names in drawn.items() if names]
    apart = {setting for names in drawn.values() for setting in names}
    seen = [setting for setting in settings_of(sources) if setting not in apart]
    fixed = [(setting, distinct(rows, setting)) for setting in seen if setting not in OF_SOURCES]
    fixed = [(setting, of) for setting, of in fixed if of and of != [NEUTRAL.get(setting)]]
    at = [f"{name(setting)} = {listed(of)}" for setting, of in fixed]
    first = f"{_names(y)} {', '.join(parts)}" + f"; {', '.join(at)}" * bool(at)
    sentences = [f"{first}.", _intervals(rows, y, "Error bars" if "x" in drawn else "Brackets")]
    sentences += _loops(rows)
    own = [(source, [row for row in rows if row["run"] == source.name]) for source in sources]
    own = [(source, inside) for source, inside in own if inside]
    parts_of = [_source(source, inside) for source, inside in own]
    shared = [part for part in parts_of[0] if all(part in other for other in parts_of)]
    for (source, inside), parts in zip(own, parts_of):
        kind = {"measured": "Run", "forecast": "Forecast of"}[inside[0]["kind"]]
        parts = [part for part in parts if part not in shared or len(own) == 1]
        sentences.append(f"{kind} {source.name}{': ' * bool(parts)}{', '.join(parts)}.")
        if any(metric in TIMED for metric in y):
            sentences += source.invalid
    return " ".join([*sentences, *([f"All: {', '.join(shared)}."] if len(own) > 1 else [])])


def withheld(sources: Sequence[Source], rows: Sequence[Row], metric: str) -> str:
    """Why a metric of these rows is no evidence on speed; empty if it may be."""
    of = {row["run"] for row in rows} if metric in TIMED else ()
    reasons = [reason for source in sources if source.name in of for reason in source.invalid]
    if not reasons:
        return ""
    known = (note for start, note in WITHHELD.items() if reasons[0].startswith(start))
    return next(known, "no verdict: no report")


def _names(columns: Sequence[str]) -> str:
    words = [name(column).replace("_", " ") for column in columns]
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _intervals(rows: Sequence[Row], y: Sequence[str], marks: str) -> str:
    values = [(row, metric) for row in rows for metric in y if row.get(metric) is not None]
    known = sum(row.get(metric + "_lo") is not None for row, metric in values)
    if not known:
        return "There are no intervals."
    missing = len(values) - known
    rest = f"; {missing} of {len(values)} values have none" if missing else ""
    return f"{marks} are 95 % intervals over prompts (Student's t with Hall's correction){rest}."


def _loops(rows: Sequence[Row]) -> list[str]:
    share = max((row.get("baseline_loop_share") or 0.0 for row in rows), default=0.0)
    found = f"Up to {100 * share:.1f} % of the tokens of plain decoding lie in repetition loops."
    return [found] * (share > MOST_LOOPS)


def _source(source: Source, rows: Sequence[Row]) -> list[str]:
    """A run or tape: models, prompts, generations, seed, commit and machine."""
    models = []
    for model, dtype in (("target", "dtype"), ("draft", "draft_dtype")):
        found = dict.fromkeys((row.get(model), row.get(dtype)) for row in rows if row.get(model))
        words = [f"{shown(own)} in {of}" if of else shown(own) for own, of in found]
        models += [f"{model} {' and '.join(words)}"] if words else []
    if rows[0]["kind"] == "measured":
        count = f"{sum(row['generations'] for row in rows)} generations"
    else:
        texts = {(row.get("sampling"), row["texts"]) for row in rows}
        count = f"{sum(number for _, number in texts)} sequences"
    return [*models, *source.about[:1], count, *source.about[1:]]
