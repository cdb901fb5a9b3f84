"""The figures of a results folder, from its CSV files."""

import csv
import gzip
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

# Points are medians of this many neighbouring lengths.
NEIGHBOURS = 16
NAMES = {"cached": "with the cache", "uncached": "without"}
COLOURS = {"cached": "#0072b2", "uncached": "#d55e00"}
DTYPES = {"f32": "#0072b2", "f16": "#009e73", "q8_0": "#cc79a7"}


def rows(file: Path) -> list[dict[str, str]]:
    """Read a CSV file."""
    opened = gzip.open(file, "rt") if file.suffix == ".gz" else file.open()
    with opened as lines:
        return list(csv.DictReader(lines))


def smooth(values: np.ndarray) -> np.ndarray:
    """Return medians of neighbours."""
    groups = len(values) // NEIGHBOURS
    return np.median(values[: groups * NEIGHBOURS].reshape(groups, NEIGHBOURS), axis=1)


def tokens(out: Path, powers: dict[str, tuple[int, ...]], one: Any, all_of_them: Any) -> None:
    """Draw the time of a token, with its fit, and of all tokens so far."""
    times: dict[str, dict[int, list[float]]] = {kind: defaultdict(list) for kind in powers}
    for row in rows(out / "tokens.csv.gz"):
        times[row["kind"]][int(row["context_tokens"])].append(float(row["us"]))
    for row in rows(out / "fits.csv"):
        kind = row["kind"]
        lengths = np.array(sorted(times[kind]), dtype=float)
        ms = np.array([np.median(times[kind][int(n)]) for n in lengths]) / 1000
        colour, name = COLOURS[kind], NAMES[kind]
        one.plot(smooth(lengths), smooth(ms), ".", color=colour, label=name)
        factors = [float(row[key]) for key in ("us", "us_per_token", "us_per_token2") if row[key]]
        fit = sum(f * lengths**power for f, power in zip(factors, powers[kind]))
        one.plot(lengths, fit / 1000, color=colour, linewidth=1)
        all_of_them.plot(lengths - lengths[0] + 1, np.cumsum(ms) / 1000, color=colour, label=name)
    one.set(xlabel="tokens before the new one", ylabel="time of a token (ms)", title="One token")
    all_of_them.set(xlabel="new tokens", ylabel="time of the text (s)", title="The whole text")


def dtypes(out: Path, axes: Any) -> None:
    """Draw the time of a pass by context for every type of the cache."""
    found = rows(out / "passes-summary.csv")
    for dtype, colour in DTYPES.items():
        own = [row for row in found if row["kv_cache_dtype"] == dtype]
        contexts = [int(row["context"]) for row in own]
        axes.plot(contexts, [float(r["us"]) / 1000 for r in own], "o-", color=colour, label=dtype)
    axes.set(xlabel="context (tokens)", ylabel="time of a pass (ms)", title="Types of the cache, 110M")


def draw(out: Path, powers: dict[str, tuple[int, ...]]) -> bool:
    """Draw everything; say whether matplotlib is there."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "12"
    from matplotlib import pyplot

    figure, (one, total, by_type) = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    tokens(out, powers, one, total)
    dtypes(out, by_type)
    for axes in (one, total, by_type):
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.savefig(out / "figures" / "kv-cache.svg", metadata={"Date": None})
    return True
