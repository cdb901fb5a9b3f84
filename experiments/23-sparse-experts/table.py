"""What speculation gains on a sparse and on a dense model, from the times of their passes.

    cargo build --release
    for shape in a3b-sparse a3b-dense; do
      target/release/specdec bench --shape $shape --dtype q8_0 --seconds 15 --csv OUT/$shape.csv
    done
    python experiments/23-sparse-experts/table.py --out OUT

Reads the passes of both shapes and writes passes.csv: T(m) / T(1), the distinct experts of a pass,
and the speedup with K = m - 1 drafted tokens that cost nothing, if each is accepted with the same
probability. Such a round commits (1 - a^(K + 1)) / (1 - a) tokens (Leviathan et al. 2023, arXiv
2211.17192, equation 1). The columns "random" have the same if rows chose their experts
independently of each other, and a pass took the time of its bytes: a bound, since it takes longer.
"""

import argparse
import csv
from pathlib import Path

SHAPES = ["a3b-sparse", "a3b-dense"]
EXPERTS, USED = 128, 8
RATES = [0.5, 0.6, 0.7, 0.8, 0.9]


def tokens(rate: float, drafted: int) -> float:
    """The mean number of tokens that a round commits."""
    return (1 - rate ** (drafted + 1)) / (1 - rate)


def rows(out: Path, shape: str) -> list[list]:
    """The rows of one shape, one for each number of rows of a pass."""
    with (out / f"{shape}.csv").open() as file:
        passes = {int(row["m"]): row for row in csv.DictReader(file)}
    time = {m: float(row["median_us"]) for m, row in passes.items()}
    moved = {m: float(row["gb_per_s"]) * time[m] for m, row in passes.items()}
    found = []
    for m, row in sorted(passes.items()):
        costs, experts = [time[m] / time[1]], ["", ""]
        if row["experts"]:
            random = EXPERTS * (1 - (1 - USED / EXPERTS) ** m)
            last = max(passes)
            # Bytes are a straight line over distinct experts.
            slope = (moved[last] - moved[1]) / (float(passes[last]["experts"]) - USED)
            costs.append(1 + slope * (random - USED) / moved[1])
            experts = [round(float(row["experts"]), 2), round(random, 2)]
        gains = [round(tokens(rate, m - 1) / cost, 3) for cost in costs for rate in RATES]
        gains += [""] * (2 * len(RATES) - len(gains))
        costs = [round(cost, 3) for cost in costs] + [""] * (2 - len(costs))
        share = round(float(row["bandwidth_share"]), 3)
        found.append([shape, m, round(time[m], 1), share, *experts, *costs, *gains])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    head = ["shape", "m", "median_us", "bandwidth_share", "experts", "experts_random"]
    head += ["cost", "cost_random", *(f"speedup_{rate}" for rate in RATES)]
    head += [f"speedup_random_{rate}" for rate in RATES]
    with (args.out / "passes.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        for shape in SHAPES:
            writer.writerows(rows(args.out, shape))


if __name__ == "__main__":
    main()
