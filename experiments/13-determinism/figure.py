"""Draws the share of texts that differ, one bar per comparison."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

COLOURS = {"drafter": "#4477aa", "setting": "#228833", "engine": "#ee6677", "weights": "#999999"}
TITLES = {"greedy": "greedy", "seeded": "sampled with a seed, T = 0.8"}
WORDS = {
    "threads-1": "1 thread",
    "no-cache": "no KV cache",
    "batch-8": "batches of 8",
    "batch-25": "batches of 25",
    "instead of native": "candle instead of native",
    "instead of f32": "q8_0 instead of f32",
}


def label(line: dict[str, object]) -> str:
    variant = WORDS.get(str(line["variant"]), line["variant"])
    if line["comparison"] in ("engine", "weights"):
        return f"{line['comparison']}: {variant}"
    return f"{line['engine']}, {line['comparison']}: {variant}"


def panel(axes: Axes, lines: list[dict[str, object]], strategy: str) -> None:
    """The bars of one strategy, with the counts next to them."""
    for place, line in enumerate(lines):
        share = 100 * line["differ"] / line["texts"]
        axes.barh(place, share, color=COLOURS[line["comparison"]])
        count = f"{line['differ']:,} of {line['texts']:,}"
        weight = "bold" if line["differ"] else "normal"
        axes.text(share + 1, place, count, va="center", fontsize=8, fontweight=weight)
    axes.set_yticks(range(len(lines)), [label(line) for line in lines], fontsize=8)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xlim(0, 125)
    axes.set_xticks(range(0, 101, 25))
    axes.set_xlabel("texts that differ from the reference, %", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_title(TITLES[strategy], fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def draw(summary: list[dict[str, object]], path: Path) -> None:
    """Draws a panel for each strategy."""
    plt.rcParams["svg.hashsalt"] = "13"
    figure, both = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    for axes, strategy in zip(both, TITLES, strict=True):
        panel(axes, [line for line in summary if line["strategy"] == strategy], strategy)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
