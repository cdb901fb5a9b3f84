"""Computes `summary.csv` from the raw rows."""

import csv
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from peers import OURS, VARIANTS
from rows import Row
from spread import spread
from weights import SHAPES

# With fewer undisturbed samples than this, all samples count.
ENOUGH = 3
COLUMNS = [
    "shape",
    "dtype",
    "engine",
    "engine_version",
    "threads",
    "kind",
    "m",
    "context",
    "median_us",
    "min_us",
    "spread",
    "kept",
    "dropped",
    "over_t1",
    "gb_per_s",
    "ratio_median",
    "ratio_min",
    "ratio_max",
    "ratio_rounds",
]

Part = tuple[str, str, str, int, int]  # shape, dtype, kind, m, context


@dataclass(frozen=True)
class Cell:
    """All samples of one kind and size of one engine."""

    rows: list[Row]

    def counted(self) -> list[Row]:
        """The undisturbed samples; all samples if fewer than ENOUGH are undisturbed."""
        kept = [row for row in self.rows if row.kept]
        return kept if len(kept) >= ENOUGH else self.rows

    def micros(self) -> list[float]:
        """The times that count, in microseconds."""
        return [row.micros for row in self.counted()]

    def median(self) -> float:
        """The median of the times that count, in microseconds."""
        return statistics.median(self.micros())

    def quartiles(self) -> tuple[float, float]:
        """The first and third quartile of the times that count, in microseconds."""
        low, _, high = spread(self.micros())
        return low, high

    def ratios(self, other: "Cell") -> list[float]:
        """This engine's time ÷ the other's, for every round that counts for both."""
        theirs = {row.round: row.micros for row in other.counted()}
        counted = self.counted()
        return [row.micros / theirs[row.round] for row in counted if row.round in theirs]


def cells(rows: list[Row]) -> dict[Part, dict[str, Cell]]:
    """The samples grouped by what was measured, then by engine."""
    sorted_: dict[Part, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        sorted_[row.shape, row.dtype, row.kind, row.m, row.context][row.engine].append(row)
    return {
        part: {engine: Cell(samples) for engine, samples in engines.items()}
        for part, engines in sorted_.items()
    }


def bytes_per_token(row: Row) -> int:
    """Bytes of the weights that a pass of one token reads, for a model of a known shape."""
    return SHAPES[row.shape].bytes_per_token(row.dtype)


def write(rows: list[Row], file: Path) -> None:
    """Writes `summary.csv`."""
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(records(rows, bytes_per_token))


def records(rows: list[Row], sizes: Callable[[Row], int]) -> Iterator[dict[str, object]]:
    """The rows of a summary; `sizes` gives the bytes of the weights that a row's engine reads."""
    grouped = cells(rows)
    for part, engines in grouped.items():
        single = grouped.get((*part[:2], "pass", 1, part[-1]), {})
        for engine, cell in engines.items():
            yield _record(part, cell, single.get(engine), engines.get(OURS), sizes)


def _record(
    part: Part,
    cell: Cell,
    single: Cell | None,
    ours: Cell | None,
    sizes: Callable[[Row], int],
) -> dict[str, object]:
    shape, dtype, kind, m, context = part
    first, median, (low, high) = cell.rows[0], cell.median(), cell.quartiles()
    kept = sum(row.kept for row in cell.rows)
    record: dict[str, object] = {
        "shape": shape,
        "dtype": dtype,
        "engine": first.engine,
        "engine_version": first.engine_version,
        "threads": first.threads,
        "kind": kind,
        "m": m,
        "context": context,
        "median_us": f"{median:.1f}",
        "min_us": f"{min(cell.micros()):.1f}",
        "spread": f"{(high - low) / median:.4f}",
        "kept": kept,
        "dropped": len(cell.rows) - kept,
    }
    if kind == "pass" and single:
        record["over_t1"] = f"{median / single.median():.3f}"
    variant = VARIANTS.get(first.engine)
    stores_dtype = variant is None or variant.dtype is None
    if kind == "read" or (kind == "pass" and m == 1 and stores_dtype):
        record["gb_per_s"] = f"{sizes(first) / median / 1e3:.2f}"
    ratios = cell.ratios(ours) if ours else []
    if ratios:
        record["ratio_median"] = f"{statistics.median(ratios):.3f}"
        record["ratio_min"] = f"{min(ratios):.3f}"
        record["ratio_max"] = f"{max(ratios):.3f}"
        record["ratio_rounds"] = len(ratios)
    return record
