"""Tables of the trainings: what each had, and its overlap with the target on held-out text.

    python experiments/20-equal-budget/tables.py --work WORK --out OUT

Reads training.json and overlap.json of every trained drafter, and writes trainings.csv and
overlap.csv. An interval of 95 % treats the windows of held-out text as independent. Differences are
paired by window: from the draft model of the same group and budget.
"""

import csv
import json
import math
import statistics
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

KEYS = ["loss", "policy", "start", "seed", "rate", "tokens", "steps", "parameters"]
REFERENCE = "draft"


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
    reference = folder.with_name(f"{REFERENCE}-{budget}") / "overlap.json"
    own, others = (json.loads(path.read_text()) for path in (folder / "overlap.json", reference))
    rows = []
    for kind, windows in own.items():
        pairs = zip(by_position(windows), by_position(others[kind]))
        for position, (values, base) in enumerate(pairs, start=1):
            place = position if position <= len(windows[0]) else "all"
            difference = interval([a - b for a, b in zip(values, base)])
            numbers = [len(values), *interval(values), *difference]
            rows.append([folder.parent.name, drafter, budget, kind, place, *numbers])
    return rows


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    trainings = [["group", "drafter", "budget", *KEYS, "target_flops", "drafter_flops", "seconds"]]
    header = ["group", "drafter", "budget", "text", "position", "windows", "overlap", "low", "high"]
    overlap = [[*header, "difference", "difference_low", "difference_high"]]
    for path in sorted(args.work.glob("*/[!.]*/training.json")):
        record = json.loads(path.read_text())
        flops = record["flops"]
        name = [path.parts[-3], record["drafter"], record["budget"]]
        cost = [flops["target"], flops["drafter"], record["processor_seconds"]]
        trainings.append([*name, *(record[key] for key in KEYS), *cost])
        overlap += overlaps(path.parent)
    args.out.mkdir(parents=True, exist_ok=True)
    for name, rows in (("trainings.csv", trainings), ("overlap.csv", overlap)):
        with (args.out / name).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
