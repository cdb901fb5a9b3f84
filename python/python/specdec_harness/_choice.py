"""The rows of a figure or a table, of which none are mixed silently."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from specdec_harness._rows import OF_TIMES, TIMED, Row, Source

#: Short names.
SHORT = {"K": "num_speculative_tokens", "tau": "block_efficiency"}
#: Settings that change nothing: a caption leaves them out.
NEUTRAL = {
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "length": "fixed",
    "strategy": "sampling",
    "batch": 1,
    "kind": "measured",
}
#: What settings and metrics are called on axes; others have the names of their columns.
LABELS = {
    "num_speculative_tokens": "draft length $K$ (tokens)",
    "temperature": "temperature $T$",
    "batch": "batch (sequences)",
    "max_tokens": "limit of new tokens",
    "alpha": "acceptance $\\alpha$",
    "acceptance_rate": "acceptance rate",
    "conditional_acceptance": "conditional\nacceptance",
    "block_efficiency": "block efficiency\n$\\tau$ (tokens/round)",
    "tokens_per_round": "tokens per round",
    "speedup": "speedup ($\\times$)",
    "loop_free_speedup": "speedup without\nloops ($\\times$)",
    "predicted_speedup": "predicted\nspeedup ($\\times$)",
    "calibrated_speedup": "calibrated\nspeedup ($\\times$)",
    "tokens_per_second": "speed (tokens/s)",
    "baseline_tokens_per_second": "plain decoding\n(tokens/s)",
    "ms_per_token": "time per token (ms)",
    "tv": "TV per token",
    "ceiling": "ceiling $\\alpha^*$",
    "share_of_ceiling": "share of ceiling",
    "cost_ratio": "cost ratio $c$",
    "passes_per_token": "passes per token",
    "passes_per_row": "passes per row",
    "loop_share": "loop share",
}
#: How many values an error lists.
LISTED = 6


def column(name: str) -> str:
    """The column with this name or short name."""
    return SHORT.get(name, name)


def columns(names: Any) -> tuple[str, ...]:
    """The columns with these names: none, one or several."""
    names = [] if names is None else [names] if isinstance(names, str) else names
    return tuple(column(name) for name in names)


def name(column: str) -> str:
    """What a column is called in sentences."""
    short = {full: short for short, full in SHORT.items()} | {"block_efficiency": "τ", "alpha": "α"}
    return short.get(column, column)


def shown(value: Any) -> str:
    """A value as in a legend: numbers without closing zeros, files without their folders."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.rsplit("/", 1)[-1] if text.count("/") > 1 else text


def listed(values: Iterable[Any]) -> str:
    """Values in words."""
    words = [shown(value) for value in values] or ["none"]
    rest = [f"{len(words) - LISTED} more"] if len(words) > LISTED else []
    words = words[:LISTED] + rest
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def distinct(rows: Sequence[Row], setting: str) -> list[Any]:
    """The values of a setting, sorted, None left out."""
    found = {row.get(setting) for row in rows} - {None}
    return sorted(found, key=lambda value: (isinstance(value, str), value))


def settings_of(sources: Sequence[Source]) -> list[str]:
    """The names of all settings."""
    return list(dict.fromkeys(name for source in sources for name in source.settings))


def choose(
    sources: Sequence[Source],
    drawn: Mapping[str, tuple[str, ...]],
    at: Mapping[str, Any],
    y: Sequence[str],
) -> list[Row]:
    """The rows at these values, which differ in nothing but the settings that are drawn: those of
    x, line and facet, or of rows and columns. Plain decoding is left out unless `at` names it.

    Raises `ValueError` with one sentence that names the setting and its values.
    """
    settings, rows = settings_of(sources), [row for source in sources for row in source.rows]
    apart = [setting for names in drawn.values() for setting in names]
    for setting in [*apart, *at]:
        _known("setting", setting, settings)
    wanted = {setting: [shown(value) for value in several(of)] for setting, of in at.items()}
    if "none" not in wanted.get("drafter", ()):
        rows = [row for row in rows if row["drafter"] != "none"]
    if not rows:
        raise ValueError('no row has a draft: at={"drafter": "none"} shows plain decoding')
    for setting, values in wanted.items():
        there = distinct(rows, setting)
        missing = [value for value in values if value not in map(shown, there)]
        if missing:
            raise ValueError(
                f"no row has {name(setting)} = {listed(missing)}: allowed are {listed(there)}"
            )
        rows = [row for row in rows if shown(row.get(setting)) in values]
    for setting in drawn.get("x", ()):
        _applies(setting, rows)
    _nothing_mixed(rows, settings, drawn, set(wanted), any(metric in TIMED for metric in y))
    return rows


def check_metrics(y: Sequence[str], rows: Sequence[Row], settings: Sequence[str]) -> None:
    """That each metric has a value in some row."""
    numbers = {key for row in rows for key, value in row.items() if _is_number(value)}
    ends = {key for key in numbers if key.endswith(("_lo", "_hi"))}
    for metric in y:
        _known("metric", metric, sorted(numbers - ends - set(settings)))


def _nothing_mixed(
    rows: Sequence[Row],
    settings: Sequence[str],
    drawn: Mapping[str, tuple[str, ...]],
    at: set[str],
    timed: bool,
) -> None:
    apart = {setting for names in drawn.values() for setting in names}
    left = apart | at | {"run"} | set(() if timed else OF_TIMES)
    seen = [setting for setting in settings if setting not in left]
    mixed = [setting for setting in seen if _differ(rows, setting, apart)]
    mixed = mixed or _alike(rows, settings, apart)
    if mixed:
        differ = " and in ".join(f"{name(setting)} ({_all(rows, setting)})" for setting in mixed)
        first = name(mixed[0])
        value = next(iter(distinct(rows, mixed[0])), None)
        value = f'"{value}"' if isinstance(value, str) else shown(value)
        roles = " or ".join(f'{role}="{first}"' for role in drawn if role != "x")
        raise ValueError(
            f'the rows differ in {differ}: choose with at={{"{first}": {value}}}, '
            f"or show them apart with {roles}"
        )


def _differ(rows: Sequence[Row], setting: str, apart: set[str]) -> bool:
    """Whether rows differ in a setting. The caption describes runs one by one: if these are drawn
    apart, they may differ. No prompts and seeds of forecasts are those of a run.
    """
    by = "run" if "run" in apart else "kind" if setting in ("prompts", "seed") else None
    if by not in apart:
        return len(distinct(rows, setting)) > 1
    groups = ([row for row in rows if row[by] == value] for value in distinct(rows, by))
    return any(len(distinct(group, setting)) > 1 for group in groups)


def _alike(rows: Sequence[Row], settings: Sequence[str], apart: set[str]) -> list[str]:
    """The settings that distinguish rows at one place of the figure."""
    places: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        other = places.setdefault(tuple(row.get(setting) for setting in sorted(apart)), row)
        if other is not row:
            differ = [setting for setting in settings if other.get(setting) != row.get(setting)]
            return [setting for setting in differ if setting not in (*OF_TIMES, "run")] or ["run"]
    return []


def _all(rows: Sequence[Row], setting: str) -> str:
    """The values of a setting in words, also that it does not apply to some rows."""
    none = [None] * any(row.get(setting) is None for row in rows)
    return listed([*distinct(rows, setting), *none])


def _applies(setting: str, rows: Sequence[Row]) -> None:
    without = [row for row in rows if row.get(setting) is None]
    if without:
        methods = listed(sorted({f"{row['drafter']} + {row['verifier']}" for row in without}))
        there = ", ".join(map(shown, distinct(rows, setting)))
        raise ValueError(
            f"{name(setting)} has no value for {methods}: "
            f'leave them out with at={{"{name(setting)}": [{there}]}}'
        )


def _known(what: str, wanted: str, names: Sequence[str]) -> None:
    if wanted not in names:
        close = difflib.get_close_matches(wanted, names, n=1)
        hint = f' (did you mean "{close[0]}"?)' if close else ""
        raise ValueError(f'unknown {what} "{wanted}"{hint}: allowed are {", ".join(names)}')


def several(values: Any) -> tuple[Any, ...]:
    """A value, or several, as several."""
    is_one = isinstance(values, str) or not isinstance(values, Iterable)
    return (values,) if is_one else tuple(values)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
