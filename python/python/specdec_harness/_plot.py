"""Figures and tables of runs, tapes and forecasts, for papers."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from specdec_harness import _caption, _choice, _rows
from specdec_harness._choice import SHORT
from specdec_harness._columns import Columns
from specdec_harness._results import Run
from specdec_harness._rows import Row, Source

if TYPE_CHECKING:
    import pandas

    from specdec_harness._figure import PaperFigure

#: The metrics that are shown if none is named and they have values.
USUAL = ("alpha", "block_efficiency", "speedup")
#: K of the forecasts of tapes, if `at` names none.
KS = tuple(range(1, 9))

_Source = Union[str, os.PathLike[str], Run, Columns]
_Sources = Union[_Source, Sequence[_Source], Mapping[str, _Source]]
_Names = Union[str, Sequence[str], None]


def plot(
    sources: _Sources,
    x: str = "K",
    y: _Names = None,
    *,
    line: _Names = None,
    facet: _Names = None,
    at: Optional[Mapping[str, Any]] = None,
    width: Union[str, float] = "single",
) -> PaperFigure:
    """A figure of metrics by one setting, with 95 % intervals.

    `sources`: results folders of runs, tapes, tables of `specdec forecast --csv`, forecasts by
    `forecast`, or several of these; a mapping names them. `x`, `line` and `facet` name settings,
    `y` metrics: columns of `summary.csv`, or K, alpha and tau. Each value of `line` has a line,
    and each of `facet` a column of panels; both can be several settings. `at` gives the settings
    that are not drawn a value, or a list of values. Settings of methods count by name (`lenience`,
    `tree`), and so do `run`, `kind` (measured or forecast), `prompts` and, for times, `machine`
    and `threads`. Plain decoding is drawn only `at={"drafter": "none"}`, second runs of control
    cells never.

    `width` is `single` (a column, 3.3 in), `double` (a page, 6.9 in) or a number of inches. The
    result is a figure of matplotlib with `save(path)` and `caption`.

    Raises `ValueError` if rows differ in a setting that is neither drawn nor in `at`, for unknown
    names and values, and for metrics without a value; `ImportError` without matplotlib.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("plot needs matplotlib: pip install 'specdec-harness[plot]'")
    from specdec_harness import _figure

    if isinstance(width, str) and width not in _figure.WIDTHS:
        raise ValueError(f"width is {width!r}: allowed are single, double and a number of inches")
    inches = _figure.WIDTHS[width] if isinstance(width, str) else width
    settings = _choice.columns(x), _choice.columns(line), _choice.columns(facet)
    drawn = dict(zip(("x", "line", "facet"), settings))
    read, rows, metrics = _chosen(sources, drawn, y, at)

    def note(of: Sequence[Row], metric: str) -> str:
        return _caption.withheld(read, of, metric)

    figure = _figure.draw(rows, drawn, metrics, inches, width == "double", note)
    figure.caption = _caption.caption(read, rows, drawn, metrics)
    return figure


def table(
    sources: _Sources,
    rows: _Names = "verifier",
    columns: _Names = None,
    y: _Names = None,
    *,
    at: Optional[Mapping[str, Any]] = None,
    digits: int = 2,
) -> pandas.DataFrame:
    """A table of metrics as `value [lo, hi]`, with 95 % intervals.

    The same as `plot` in rows and columns: each value of the settings `rows` has a row, and each
    of `columns` has a column for every metric of `y`. The caption is in `attrs["caption"]`.
    `latex` makes a table of LaTeX of it.

    Raises `ValueError` like `plot`, and `ImportError` without pandas.
    """
    if importlib.util.find_spec("pandas") is None:
        raise ImportError("table needs pandas: pip install 'specdec-harness[pandas]'")
    from specdec_harness import _table

    drawn = {"rows": _choice.columns(rows), "columns": _choice.columns(columns)}
    read, chosen, metrics = _chosen(sources, drawn, y, at)
    heads = {}
    for metric in metrics:
        why = _caption.withheld(read, chosen, metric)
        heads[metric] = _choice.name(metric).replace("_", " ") + f" ({why})" * bool(why)
    frame = _table.frame(chosen, drawn["rows"], drawn["columns"], heads, digits)
    frame.attrs["caption"] = _caption.caption(read, chosen, drawn, metrics)
    return frame


def latex(what: Union[str, pandas.DataFrame]) -> str:
    """A caption or a table as LaTeX: text is escaped, a table is a `tabular` with the rules of
    booktabs.
    """
    from specdec_harness import _latex

    return _latex.text(what) if isinstance(what, str) else _latex.tabular(what)


def _chosen(
    sources: _Sources,
    drawn: Mapping[str, tuple[str, ...]],
    y: _Names,
    at: Optional[Mapping[str, Any]],
) -> tuple[list[Source], list[Row], list[str]]:
    """The sources, the rows that are shown, and the metrics."""
    wanted = {SHORT.get(setting, setting): value for setting, value in (at or {}).items()}
    ks = [int(k) for k in _choice.several(wanted.get("num_speculative_tokens", KS))]
    read = [_rows.read(source, ks, name) for name, source in _named(sources)]
    if not read:
        raise ValueError("sources is empty: there is nothing to show")
    names = [source.name for source in read]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"two sources are called {twice}: name them, as in {{'a': …, 'b': …}}")
    metrics = list(USUAL if y is None else _choice.columns(y))
    chosen = _choice.choose(read, drawn, wanted, metrics)
    if y is None:
        valued = [key for key in metrics if any(row.get(key) is not None for row in chosen)]
        metrics = valued or metrics
    _choice.check_metrics(metrics, chosen, _choice.settings_of(read))
    return read, chosen, metrics


def _named(sources: _Sources) -> list[tuple[Optional[str], _Source]]:
    """The sources, with the names that a mapping gives them."""
    if isinstance(sources, (str, os.PathLike, Run, Columns)):
        return [(None, sources)]
    if isinstance(sources, Mapping):
        return list(sources.items())
    return [(None, source) for source in sources]
