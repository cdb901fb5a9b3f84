"""Draft length policies in a run, and simulated on a tape.

`python policies.py RUN SIMULATION.csv OUT.csv`
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import csv
import tomllib

import polars

COUNTS = ["new_tokens", "target_forwards", "draft_forwards", "decode_us"]
KEYS = ["tokens_per_round", "drafted_per_round", "ms_per_token"]


def generations(run: Path) -> list[dict]:
    packed = sorted(run.glob("generations-*.parquet"))
    frame = polars.read_parquet(packed) if packed else polars.read_csv(run / "generations.csv")
    return frame.to_dicts()


def measured(run: Path) -> dict[tuple[float, str], list[float]]:
    """By temperature and policy."""
    plan = tomllib.loads((run / "plan.toml").read_text())
    cells = {cell["id"]: cell for cell in plan["cells"] if cell["drafter"] != "none"}
    sums: dict[tuple[float, str], list[float]] = {}
    for row in generations(run):
        if cell := cells.get(row["cell"]):
            own = sums.setdefault((cell["sampling"]["temperature"], cell["length"]), [0.0] * len(COUNTS))
            for at, key in enumerate(COUNTS):
                own[at] += float(row[key])
    return {
        way: [tokens / rounds, drafted / rounds, us / 1000 / tokens]
        for way, (tokens, rounds, drafted, us) in sums.items()
    }


def main() -> None:
    run, simulation, out = map(Path, sys.argv[1:])
    with simulation.open() as rows:
        simulated = {(float(row["temperature"]), row["policy"]): row for row in csv.DictReader(rows)}
    with out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        heads = [f"{key}_{side}" for key in KEYS for side in ("simulated", "measured", "ratio")]
        writer.writerow(["temperature", "policy", *heads])
        for way, numbers in sorted(measured(run).items()):
            pairs = [(float(simulated[way][key]), own) for key, own in zip(KEYS, numbers)]
            cells = [f"{x:.4f}" for a, b in pairs for x in (a, b, a / b)]
            writer.writerow([*way, *cells])


if __name__ == "__main__":
    main()
