"""Compares specdec's passes with the time that memory and arithmetic need at least.

    python experiments/90-engine/bars.py results/90-engine/<folder>

Writes bars.csv into the folder and prints it as a table.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import csv
import json
import statistics
from dataclasses import asdict, dataclass, fields

import rows
from peak import MULTIPLY_ADDS
from peers import OURS
from ports import BLOCK, KERNELS, Kernel
from rows import Row
from spread import spread
from summary import Cell, cells
from weights import SHAPES

SIZES = (1, 5, 9, 16)


@dataclass(frozen=True)
class Bar:
    """T(m) of specdec and its lower bounds; times are medians in microseconds."""

    shape: str
    dtype: str
    context: int
    m: int
    median_us: float
    # Reading the weights and the keys and values of the context once.
    bytes_us: float
    # Executing the vector instructions of the products.
    ports_us: float
    # Which of the two is longer.
    limit: str
    # T(m) ÷ the longer one, over the rounds that have both.
    over_limit: float
    over_limit_q1: float
    over_limit_q3: float
    rounds: int


def bars(measured: list[Row], isa: str) -> list[Bar]:
    """The bars of all passes that have times for reading and for multiply-adds.

    There are none on instruction sets whose kernels are not counted in `ports.py`.
    """
    grouped = cells([row for row in measured if row.engine == OURS])
    found: list[Bar] = []
    for (shape, dtype, kind, m, context), engines in grouped.items():
        reading = grouped.get((shape, dtype, "read", 0, context))
        peak = grouped.get((shape, dtype, "peak", 0, context))
        if kind == "pass" and m in SIZES and reading and peak and isa in KERNELS:
            pace = peak[OURS].median() / MULTIPLY_ADDS
            ports = pace * slots(shape, KERNELS[isa][dtype], m, context)
            more = 1 + cache_bytes(shape, context) / SHAPES[shape].bytes_per_token(dtype)
            part = shape, dtype, context, m
            found += _bar(part, engines[OURS], reading[OURS], more, ports)
    return found


def slots(shape: str, kernel: Kernel, m: int, context: int) -> float:
    """The arithmetic of a pass, in multiply-adds of f32 that take as long."""
    sizes = SHAPES[shape]
    weights = sizes.bytes_per_token("f32") / 4
    # Scores and weighted sums of values, in f32 with every dtype.
    attention = 2 * m * context * sizes.hidden * sizes.layers
    return weights / BLOCK * kernel.slots(m) + attention


def cache_bytes(shape: str, context: int) -> int:
    """Bytes of the keys and values of a context."""
    sizes = SHAPES[shape]
    width = sizes.hidden // sizes.heads * sizes.kv_heads
    return 2 * 4 * context * width * sizes.layers


def _bar(
    part: tuple[str, str, int, int], passes: Cell, reading: Cell, more: float, ports: float
) -> list[Bar]:
    """The bar of a pass, which reads `more` times as much as the read benchmark.

    There is none if no round has undisturbed samples of both.
    """
    needed = {row.round: more * row.micros for row in reading.counted()}
    ratios = [
        row.micros / max(needed[row.round], ports)
        for row in passes.counted()
        if row.round in needed
    ]
    if not ratios:
        return []
    bytes_us = statistics.median(needed.values())
    low, middle, high = spread(ratios)
    bar = Bar(
        *part,
        median_us=round(passes.median(), 1),
        bytes_us=round(bytes_us, 1),
        ports_us=round(ports, 1),
        limit="bytes" if bytes_us > ports else "ports",
        over_limit=round(middle, 3),
        over_limit_q1=round(low, 3),
        over_limit_q3=round(high, 3),
        rounds=len(ratios),
    )
    return [bar]


def write(found: list[Bar], file: Path) -> None:
    """Writes `bars.csv`."""
    with file.open("w", newline="") as out:
        names = [field.name for field in fields(Bar)]
        writer = csv.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(bar) for bar in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a results folder with passes.csv")
    folder = parser.parse_args().folder
    try:
        isa = json.loads((folder / "machine.json").read_text()).get("isa", "")
        found = bars(rows.load(folder / "passes.csv"), isa)
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
    write(found, folder / "bars.csv")
    print("shape   dtype  context   m       T(m) us         bytes         ports  ratio  quartiles")
    for bar in found:
        print(f"{bar.shape:6}  {bar.dtype:5}  {bar.context:7}  {bar.m:2}", end="")
        for micros in (bar.median_us, bar.bytes_us, bar.ports_us):
            print(f"  {micros:12.1f}", end="")
        print(f"  {bar.over_limit:5.2f}  {bar.over_limit_q1:.2f} to {bar.over_limit_q3:.2f}")


if __name__ == "__main__":
    main()
