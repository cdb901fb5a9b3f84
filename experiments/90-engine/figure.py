"""Draws the time per pass by number of rows from the raw rows."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from common import CONTEXT
from rows import Row
from summary import Cell, Part, cells
from weights import DTYPES, SHAPES

# The colours of Okabe and Ito, which colour-blind readers can distinguish. Markers
# distinguish the engines without colour.
STYLES = {
    "specdec": ("#D55E00", "o"),
    "llama.cpp": ("#0072B2", "s"),
    "llama.cpp-q4_0": ("#56B4E9", "v"),
    "llama.cpp-q4_k_m": ("#000000", "P"),
    "candle": ("#009E73", "^"),
    "torch": ("#CC79A7", "D"),
}
LABELS = {"candle": "candle (last row's logits)"}


def draw(rows: list[Row], place: Path) -> None:
    """Writes `engine.svg` and `engine.png` into a folder, if passes after `CONTEXT` were timed."""
    grouped = cells([row for row in rows if row.context == CONTEXT])
    if not grouped:
        return
    shapes = [shape for shape in SHAPES if any(part[0] == shape for part in grouped)]
    dtypes = [dtype for dtype in DTYPES if any(part[1] == dtype for part in grouped)]
    engines = [name for name in STYLES if any(name in cell for cell in grouped.values())]
    size = (0.6 + 3.2 * len(dtypes), 0.9 + 2.5 * len(shapes))
    with plt.rc_context({"svg.hashsalt": "engine", "font.size": 9}):
        figure, axes = plt.subplots(
            len(shapes), len(dtypes), figsize=size, squeeze=False, layout="constrained"
        )
        for line, shape in zip(axes, shapes):
            for panel, dtype in zip(line, dtypes):
                _panel(panel, grouped, shape, dtype)
            line[0].set_ylabel("ms per pass")
        for panel in axes[-1]:
            panel.set_xlabel("tokens in the pass (m)")
        handles = [_handle(name) for name in engines]
        columns = min(2 * len(dtypes), len(engines))
        figure.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False)
        figure.savefig(place / "engine.svg", metadata={"Date": None})
        figure.savefig(place / "engine.png", dpi=150)
        plt.close(figure)


def _handle(engine: str) -> Line2D:
    colour, marker = STYLES[engine]
    return Line2D([], [], color=colour, marker=marker, label=LABELS.get(engine, engine))


def _panel(panel: Axes, grouped: dict[Part, dict[str, Cell]], shape: str, dtype: str) -> None:
    panel.set_title(f"{shape}, {dtype}")
    sizes = sorted(m for s, d, kind, m, _ in grouped if (s, d, kind) == (shape, dtype, "pass"))
    for engine, (colour, marker) in STYLES.items():
        points = [
            (m, cell[engine])
            for m in sizes
            if engine in (cell := grouped[shape, dtype, "pass", m, CONTEXT])
        ]
        if not points:
            continue
        x = [m for m, _ in points]
        panel.plot(
            x, [c.median() / 1e3 for _, c in points], color=colour, marker=marker, markersize=4
        )
        low, high = zip(*(c.quartiles() for _, c in points))
        panel.fill_between(
            x, [t / 1e3 for t in low], [t / 1e3 for t in high], color=colour, alpha=0.2, lw=0
        )
    panel.set_ylim(bottom=0)
    panel.set_xlim(0, max(sizes, default=1) + 1)
    panel.set_xticks([1, 4, 8, 12, 16])
    panel.grid(alpha=0.3)
