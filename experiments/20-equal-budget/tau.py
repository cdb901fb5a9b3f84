"""Tokens per round of every trained drafter, from real loops of the program.

    cargo build --release
    python experiments/20-equal-budget/tau.py --work WORK --out OUT
    python experiments/20-equal-budget/tau.py --work WORK --out OUT --clock real --only 'kl-1/*-524288'

WORK is the folder of the trainings. Each drafter runs once, and a run that exists in WORK is kept.
Without --clock real, times are those of a virtual clock, so any machine gives the same numbers.
OUT gets tau.csv, or costs.csv with measured costs and speedups: for these the machine must be quiet.
"""

import argparse
import csv
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPECDEC = ROOT / "target/release/specdec"
TAU = ["block_efficiency", "block_efficiency_lo", "block_efficiency_hi"]
COSTS = ["cost_ratio", "verify_cost_ratio", "speedup", "speedup_lo", "speedup_hi"]
COLUMNS = {
    "virtual": ["num_speculative_tokens", "temperature", "generations", "loop_share", *TAU],
    "real": ["num_speculative_tokens", "temperature", "generations", *TAU, *COSTS],
}
LENGTHS = {"virtual": [4], "real": [4, 8]}
EXPERIMENT = """question = "How much does {name} accept?"
target = "target"
draft = "{name}"
dtype = "{dtype}"
draft_dtype = "f32"
clock = "{clock}"
threads = 1
prompts = ["{prompts}"]
prompts_limit = {limit}
max_tokens = 96
seed = 20

[[sweep]]
drafter = "model"
num_speculative_tokens = {lengths}
temperature = [0.7, 1]
"""


def summary(folder: Path, name: str, work: Path, args: argparse.Namespace) -> Path:
    """The summary of a drafter's run, which is made unless it exists."""
    clock = args.clock
    results = work / clock
    if not list((results / name).glob("*/summary.csv")):
        experiment = work / "experiments" / f"{name}.toml"
        experiment.parent.mkdir(parents=True, exist_ok=True)
        values = {"name": name, "clock": clock, "lengths": LENGTHS[clock]}
        values |= {"dtype": args.dtype, "limit": args.limit}
        values["prompts"] = ROOT / "experiments/13-determinism/prompts.jsonl"
        experiment.write_text(EXPERIMENT.format(**values))
        configs = work / "configs"
        configs.mkdir(exist_ok=True)
        models = {"target": args.target.resolve(), name: folder}
        tables = [f'[{key}]\npath = "{path}"\n' for key, path in models.items()]
        (configs / "models.toml").write_text("".join(tables))
        command = [args.specdec.resolve(), "run", experiment, "--out", results]
        subprocess.run(command, cwd=work, check=True)
    return next((results / name).glob("*/summary.csv"))


def cells(path: Path, columns: list[str]) -> list[list[str]]:
    """The cells with drafts of a run."""
    with path.open() as file:
        found = [cell for cell in csv.DictReader(file) if cell["block_efficiency"]]
    return [[cell[column] for column in columns] for cell in found]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--specdec", type=Path, default=SPECDEC)
    parser.add_argument("--clock", choices=COLUMNS, default="virtual")
    parser.add_argument("--target", type=Path, default=ROOT / "models/target")
    parser.add_argument("--dtype", default="f32", help="type of the target's weights in memory")
    parser.add_argument("--limit", type=int, default=64, help="number of prompts")
    parser.add_argument("--only", default="*", help="pattern of GROUP/DRAFTER-BUDGET")
    args = parser.parse_args()
    work, rows = args.work.resolve(), []
    for record in sorted(work.glob("*/[!.]*/training.json")):
        key = str(record.parent.relative_to(work))
        if not fnmatch(key, args.only):
            continue
        group, (drafter, budget) = record.parts[-3], record.parent.name.split("-", 1)
        name = key.replace("/", "-").replace(".", "-")
        try:
            found = summary(record.parent, name, work / "tau", args)
        except subprocess.CalledProcessError:
            sys.exit(f"{key}: the program has not run it; --only chooses others")
        rows += [[group, drafter, budget, *cell] for cell in cells(found, COLUMNS[args.clock])]
    args.out.mkdir(parents=True, exist_ok=True)
    name = "tau.csv" if args.clock == "virtual" else "costs.csv"
    with (args.out / name).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([["group", "drafter", "budget", *COLUMNS[args.clock]], *rows])


if __name__ == "__main__":
    main()
