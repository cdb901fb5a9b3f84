"""Draws speedups by batch, measured and forecast."""

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {"1": "#4477aa", "2": "#228833", "4": "#cc6677"}


def draw(rows: list[dict[str, str]], file: Path) -> None:
    """One panel for each context: measured with intervals, forecasts as dashed lines."""
    plt.rcParams.update({"svg.hashsalt": "specdec", "font.size": 9})
    contexts = sorted({int(row["context"]) for row in rows})
    figure, axes = plt.subplots(1, len(contexts), figsize=(8, 3.4), sharey=True, squeeze=False)
    for axis, context in zip(axes[0], contexts, strict=True):
        axis.axhline(1, color="#777777", linewidth=0.8)
        for k, colour in COLOURS.items():
            own = [row for row in rows if row["K"] == k and int(row["context"]) == context]
            own.sort(key=lambda row: int(row["batch"]))
            batch = [int(row["batch"]) for row in own]
            measured = [float(row["measured"]) for row in own]
            ends = [[float(row[end] or "nan") for row in own] for end in ("lo", "hi")]
            bars = [
                [m - lo for m, lo in zip(measured, ends[0], strict=True)],
                [hi - m for m, hi in zip(measured, ends[1], strict=True)],
            ]
            axis.errorbar(batch, measured, bars, color=colour, marker="o", ms=3, label=f"K = {k}")
            forecast = [float(row["forecast"] or "nan") for row in own]
            axis.plot(batch, forecast, color=colour, linestyle="--", linewidth=1)
        axis.set_xscale("log", base=2)
        axis.set_xticks(sorted({int(row["batch"]) for row in rows}))
        axis.get_xaxis().set_major_formatter(mpl.ticker.ScalarFormatter())
        axis.set_xlabel("texts at once")
        axis.set_title(f"about {context} tokens before the round", fontsize=9)
    axes[0][0].set_ylabel("speedup over plain decoding in the same batch")
    axes[0][0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
