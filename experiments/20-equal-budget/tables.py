"""Tables of the trainings: what each had, and its overlap with the target on held-out text.

    python experiments/20-equal-budget/tables.py --work WORK --out OUT

Reads training.json and overlap.json of every trained drafter, and writes trainings.csv,
overlap.csv, seeds.csv, and what the trainings have in common as manifest.json. An interval of 95 %
treats the windows of held-out text as independent. Differences are paired by window: from the draft
model of the same group and budget. seeds.csv has the smallest, mean and largest overlap of
trainings that differ in their seed alone.
"""

import csv
import json
import math
import statistics
import sys
import tomllib
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable
from pathlib import Path

SAME = ["drafter", "loss", "policy", "start", "budget"]
KEYS = ["group", *SAME, "seed", "rate", "tokens", "steps", "parameters"]
OVERLAP = ["group", "drafter", "budget", "text", "position", "windows", "overlap", "low", "high"]
OVERLAP += ["difference", "difference_low", "difference_high"]
COMMON = ["data", "target", "lent", "recipe", "torch", "processor", "batch", "warmup", "decay"]
GRID = Path(__file__).resolve().with_name("grid.toml")
KINDS, REFERENCE = ("text", "own"), "draft"


def interval(values: list[float]) -> list[float]:
    """The mean and the ends of its interval."""
    mean = statistics.fmean(values)
    half = 1.96 * statistics.stdev(values) / math.sqrt(len(values))
    return [round(x, 4) for x in (mean, mean - half, mean + half)]


def by_position(windows: list[list[float]]) -> list[list[float]]:
    """The windows' values at every position, and their means over all positions at the end."""
    return [*map(list, zip(*windows)), [statistics.fmean(window) for window in windows]]


def overlaps(folder: Path) -> list[list]:
    """Rows of one drafter: kind of text, position, windows, overlap, difference."""
    drafter, budget = folder.name.split("-", 1)
    files = folder / "overlap.json", folder.with_name(f"{REFERENCE}-{budget}") / "overlap.json"
    for file in files:
        if not file.exists():
            sys.exit(f"{file} is missing: python -m protocol overlap writes it")
    own, others = (json.loads(file.read_text()) for file in files)
    rows = []
    for kind, windows in own.items():
        pairs = zip(by_position(windows), by_position(others[kind]))
        for position, (values, base) in enumerate(pairs, start=1):
            place = position if position <= len(windows[0]) else "all"
            difference = interval([a - b for a, b in zip(values, base)])
            numbers = [len(values), *interval(values), *difference]
            rows.append([folder.parent.name, drafter, budget, kind, place, *numbers])
    return rows


def seeds(records: list[dict], overlap: list[list]) -> list[list]:
    """Overlaps over all positions, of trainings that differ in their seed alone."""
    means = {(*row[:3], row[3]): row[6] for row in overlap if row[4] == "all"}
    found: dict[tuple, list[float]] = {}
    for record in records:
        for kind in KINDS:
            key = *(record[key] for key in SAME), kind
            name = record["group"], record["drafter"], record["budget"]
            found.setdefault(key, []).append(means[*name, kind])
    return [
        [*key, len(values), min(values), round(statistics.fmean(values), 4), max(values)]
        for key, values in found.items()
        if len(values) > 1
    ]


def distinct(values: Iterable) -> list:
    """Each value once, in the order of their first appearance."""
    found = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    trainings, overlap, records = [], [], []
    tuning = tomllib.loads(GRID.read_text())["tuning"]
    for path in sorted(args.work.glob("*/[!.]*/training.json")):
        if path.parts[-3] in tuning:
            continue
        record = json.loads(path.read_text()) | {"group": path.parts[-3]}
        flops = record["flops"]
        cost = [flops["target"], flops["drafter"], record["processor_seconds"]]
        trainings.append([record[key] for key in KEYS] + cost)
        overlap += overlaps(path.parent)
        records.append(record)
    tables = {
        "trainings.csv": ([*KEYS, "target_flops", "drafter_flops", "seconds"], trainings),
        "overlap.csv": (OVERLAP, overlap),
        "seeds.csv": ([*SAME, "text", "seeds", "least", "mean", "most"], seeds(records, overlap)),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    common = {key: distinct(record[key] for record in records) for key in COMMON}
    (args.out / "manifest.json").write_text(json.dumps(common, indent=1) + "\n")
    for name, (header, rows) in tables.items():
        with (args.out / name).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *rows])


if __name__ == "__main__":
    main()
