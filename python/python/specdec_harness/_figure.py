"""Figures of the width of a column, on matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, Optional

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from specdec_harness._choice import LABELS, distinct, name, shown
from specdec_harness._rows import Row

#: Fonts are embedded as TrueType, which publishers ask for, and look like those of most papers.
STYLE: Any = {
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.color": "#dddddd",
    "lines.linewidth": 1.1,
    "lines.markersize": 3.5,
    "lines.markeredgewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}
#: Colours of Okabe and Ito in an order in which neighbours differ in grey, markers and dashes.
LINES = (
    ("#000000", "o", "-"),
    ("#e69f00", "s", "-"),
    ("#0072b2", "^", "--"),
    ("#56b4e9", "D", "--"),
    ("#009e73", "v", ":"),
    ("#cc79a7", "P", "-."),
    ("#d55e00", "X", ":"),
    ("#999999", "*", "-."),
)
#: Widths of a column and of a page in inches.
WIDTHS = {"single": 3.3, "double": 6.9}
#: Height of a panel in inches.
HEIGHT = 1.3
#: Numbers of a larger ratio are drawn on a logarithmic axis, if neighbours have the second one.
WIDE, APART = 15, 1.5
#: Letters of names that fit on an inch of an axis; with more they are turned.
LETTERS = 15
#: Points between the lines at one value of x, so that intervals do not hide each other.
BETWEEN = 2.0


class PaperFigure(Figure):
    """A figure of matplotlib with a caption, which embeds its fonts when it is saved."""

    #: What the figure shows, from what models, prompts, seed and build.
    caption: str

    def savefig(self, fname: Any, **kwargs: Any) -> None:
        """Writes the figure; fonts of PDF and PostScript files are TrueType."""
        with matplotlib.rc_context(STYLE):
            super().savefig(fname, **kwargs)

    save = savefig

    def set(self, **kwargs: Any) -> list[Any]:
        """Sets properties, as of any artist: matplotlib would add one that type stubs lack."""
        return super().set(**kwargs)

    def _repr_png_(self) -> bytes:
        shown = BytesIO()
        self.savefig(shown, format="png", dpi=200)
        return shown.getvalue()


def draw(
    rows: Sequence[Row],
    drawn: Mapping[str, tuple[str, ...]],
    y: Sequence[str],
    width: float,
    side_by_side: bool,
    note: Callable[[Sequence[Row], str], str],
) -> PaperFigure:
    """A panel for each metric and facet, with a line for each value of the line's settings."""
    (x,), line, facet = drawn["x"], drawn["line"], drawn["facet"]
    facets, lines = _groups(rows, facet), _groups(rows, line)
    if len(lines) > len(LINES):
        names = ", ".join(name(setting) for setting in line)
        raise ValueError(
            f"{len(lines)} lines ({names}) are too many to be told apart: "
            f"choose at most {len(LINES)} with at, or use facet"
        )
    shape = (1, len(y)) if side_by_side and not facet else (len(y), len(facets))
    with matplotlib.rc_context(STYLE):
        figure = PaperFigure(figsize=(width, HEIGHT * shape[0] + 0.5), layout="constrained")
        panels = figure.subplots(
            *shape, sharex=True, sharey="row" if facet else "none", squeeze=False
        )
        places = _places(rows, x)
        for number, (place, inside) in enumerate(facets.items()):
            for row, metric in enumerate(y):
                panel = panels.flat[row] if not facet else panels[row, number]
                for at, key in enumerate(lines):
                    own = [found for found in inside if _key(found, line) == key]
                    shift = BETWEEN * (at - (len(lines) - 1) / 2) * (3 if places else 1)
                    _draw_line(panel, own, x, metric, LINES[at], shift, places, _label(key))
                named = [f"{name(key)} = {shown(of)}" for key, of in zip(facet, place)]
                titles = [", ".join(named) if row == 0 else "", note(inside, metric)]
                panel.set_title("\n".join(filter(None, titles)))
                if "speedup" in metric:
                    panel.axhline(1.0, color="#666666", linewidth=0.6, zorder=1)
                if number == 0:
                    panel.set_ylabel(LABELS.get(metric, metric.replace("_", " ")))
        for panel in panels.flat:
            _ticks(panel, width / shape[1], rows, x, places)
        for panel in panels[-1]:
            panel.set_xlabel(LABELS.get(x, name(x).replace("_", " ")))
        if line:
            _legend(figure, panels.flat[0], line)
    return figure


def _draw_line(
    panel: Axes,
    rows: Sequence[Row],
    x: str,
    metric: str,
    look: tuple[str, str, str],
    shift: float,
    places: Optional[dict[Any, int]],
    label: str,
) -> None:
    """Values with their intervals, connected if x is a number."""
    rows = sorted(rows, key=lambda row: places[row[x]] if places else row[x])
    at = [places[row[x]] if places else row[x] for row in rows]
    value, lo, hi = (
        np.array([row.get(metric + end) for row in rows], dtype=float) for end in ("", "_lo", "_hi")
    )
    colour, marker, dashes = look
    drawn = panel.errorbar(
        at,
        value,
        yerr=np.array([value - lo, hi - value]),
        label=label,
        color=colour,
        marker=marker,
        linestyle="none" if places else dashes,
        elinewidth=0.8,
        capsize=1.5,
        capthick=0.8,
    )
    # Moved afterwards, so that data and limits of the axes stay those of the values.
    moved = panel.transData + ScaledTranslation(shift / 72, 0, panel.figure.dpi_scale_trans)
    for artist in drawn.get_children():
        artist.set_transform(moved)


def _groups(rows: Sequence[Row], settings: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows by their values of these settings, in order."""
    order = [[*distinct(rows, setting), None] for setting in settings]
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(
        rows, key=lambda row: [values.index(row.get(key)) for key, values in zip(settings, order)]
    ):
        found.setdefault(_key(row, settings), []).append(row)
    return found


def _key(row: Row, settings: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row.get(setting) for setting in settings)


def _label(key: Sequence[Any]) -> str:
    return ", ".join(map(shown, key))


def _places(rows: Sequence[Row], x: str) -> Optional[dict[Any, int]]:
    """The places of names on an axis; None for numbers."""
    values = distinct(rows, x)
    if any(isinstance(value, str) for value in values):
        return {value: place for place, value in enumerate(values)}
    return None


def _ticks(
    panel: Axes, inches: float, rows: Sequence[Row], x: str, places: Optional[dict[Any, int]]
) -> None:
    """The marks of x on a panel of this width."""
    values = distinct(rows, x)
    if places:
        panel.set_xlim(-0.5, len(places) - 0.5)
        long = max(map(len, map(shown, values))) * len(values) > LETTERS * inches
        turned: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
        panel.set_xticks(range(len(values)), [*map(shown, values)], **(turned if long else {}))
    elif _is_wide(values):
        panel.set_xscale("log", base=2)
        panel.set_xticks(values, [*map(shown, values)])
        panel.xaxis.set_minor_locator(NullLocator())
    elif len(values) <= 8 and min(np.diff(values), default=1) > 0.08 * np.ptp(values):
        panel.set_xticks(values, [*map(shown, values)])
    else:
        whole = all(float(value).is_integer() for value in values)
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=whole))


def _is_wide(values: Sequence[float]) -> bool:
    positive = min(values) > 0 and max(values) > WIDE * min(values)
    return positive and all(b >= APART * a for a, b in zip(values, values[1:]))


def _legend(figure: Figure, panel: Axes, line: Sequence[str]) -> None:
    """A legend above the panels, with as many columns as fit."""
    handles, labels = panel.get_legend_handles_labels()
    title = ", ".join(name(setting).replace("_", " ") for setting in line)
    FigureCanvasAgg(figure)
    for columns in range(min(len(labels), 4), 0, -1):
        legend = figure.legend(
            handles,
            labels,
            title=title,
            title_fontsize=7.5,
            ncols=columns,
            loc="outside upper center",
            frameon=False,
            handlelength=2.2,
            columnspacing=1.0,
            borderaxespad=0.1,
        )
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()
