"""Draws quality by number of texts."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from summary import FUNCTION, LOG_P, LOG_P_PER_TOKEN, MAJORITY, PARSER, PASS, Point

# The colours of Okabe and Ito, which colour-blind readers can distinguish. Markers and dashes
# distinguish the curves without colour.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D")
Curve = tuple[str, list[Point]]


def draw(points: Sequence[Point], file: Path) -> None:
    """Writes a panel for every way to choose that was measured."""
    words = [point for point in points if point.request != FUNCTION]
    code = [point for point in points if point.request == FUNCTION]
    panels = []
    if words:
        panels.append(("majority", "right answers", curves(words, MAJORITY), "n"))
        panels.append(("any of n is right (pass@n)", "problems", curves(words, PASS), "n"))
        panels.append(("majority, by time", "right answers", curves(words, MAJORITY), "seconds"))
    if code:
        panels.append(("functions, one of n chosen", "parse", chosen(code), "n"))
    if not panels:
        return
    with plt.rc_context({"svg.hashsalt": "test-time-compute", "font.size": 9}):
        size = (3.4 * len(panels), 3.6)
        figure, axes = plt.subplots(
            1, len(panels), figsize=size, squeeze=False, layout="constrained"
        )
        for panel, (title, label, found, by) in zip(axes[0], panels, strict=True):
            panel.set_title(title)
            panel.set_ylabel(f"share of {label}" if label != "parse" else "share that parses")
            fill(panel, found, by)
        figure.savefig(file, metadata={"Date": None})
        plt.close(figure)


def curves(points: Sequence[Point], choice: str) -> list[Curve]:
    """The curves of word problems: one per model and request."""
    names = dict.fromkeys((point.model, point.request) for point in points)
    found = []
    for name in names:
        own = [p for p in points if (p.model, p.request) == name and p.choice == choice]
        found.append((f"{name[0].rsplit('-', 1)[1].upper()}, {name[1]}", own))
    return found


def chosen(points: Sequence[Point]) -> list[Curve]:
    """The curves of functions: one per way to choose."""
    ways = (PARSER, LOG_P, LOG_P_PER_TOKEN)
    return [(way, [point for point in points if point.choice == way]) for way in ways]


def fill(panel: Axes, found: list[Curve], by: str) -> None:
    """Draws the curves of a panel with their intervals."""
    for (name, points), colour, marker in zip(found, COLOURS, MARKERS, strict=False):
        x = [point.n if by == "n" else point.decode_seconds for point in points]
        panel.plot(x, [p.quality for p in points], color=colour, marker=marker, ms=4, label=name)
        low, high = [p.low for p in points], [p.high for p in points]
        panel.fill_between(x, low, high, color=colour, alpha=0.12, lw=0)
    panel.set_xscale("log", base=2 if by == "n" else 10)
    panel.xaxis.set_minor_formatter(NullFormatter())
    if by == "n":
        ticks = sorted({point.n for _, points in found for point in points})
        panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.set_xlabel("texts (n)" if by == "n" else "seconds per problem")
    panel.set_ylim(0, 1.02)
    panel.grid(alpha=0.3)
    panel.legend(frameon=False, fontsize=7)
