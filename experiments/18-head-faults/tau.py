"""Tokens per round of the draft model and of the tap draft, which ship with the project.

    cargo build --release
    python experiments/18-head-faults/tau.py --work WORK --out OUT

Runs draft.toml and tap-draft.toml, and writes OUT/tau.csv. A run that exists in WORK is kept.
"""

import argparse
import csv
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPECDEC = HERE.parents[1] / "target/release/specdec"
COLUMNS = ["num_speculative_tokens", "temperature", "generations", "loop_share"]
COLUMNS += ["block_efficiency", "block_efficiency_lo", "block_efficiency_hi"]


def rows(name: str, work: Path) -> list[list[str]]:
    """The cells with drafts of a run."""
    if not list((work / name).glob("*/summary.csv")):
        subprocess.run([SPECDEC, "run", HERE / f"{name}.toml", "--out", work], check=True)
    (summary,) = (work / name).glob("*/summary.csv")
    with summary.open() as file:
        cells = [cell for cell in csv.DictReader(file) if cell["block_efficiency"]]
    return [[name, *(cell[column] for column in COLUMNS)] for cell in cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    found = [row for name in ("draft", "tap-draft") for row in rows(name, args.work)]
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "tau.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["drafter", *COLUMNS], *found])


if __name__ == "__main__":
    main()
