"""Run a grid of trainings at equal budgets; run the same command again to resume.

    python -m protocol run GRID --work WORK     trains all groups that are not done
    python -m protocol plan GRID --work WORK    prints tokens, steps and FLOPs of every training
    python -m protocol overlap GRID --work WORK measures what is trained, on held-out text
    python -m protocol tau GRID --work WORK     runs loops, as a check of the program's

WORK has the shards of pack.py and heads.generate. Each group is one process of one thread, and its
results do not depend on what else runs. Trained drafters lie in WORK/GROUP/DRAFTER-BUDGET.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from protocol.grid import Grid, GridError, load

TRAINING = Path(__file__).resolve().parents[1]
KINDS, MAKERS = ("code", "prose", "sampled"), "pack.py and heads.generate"
PROMPTS = TRAINING.parents[1] / "experiments/13-determinism/prompts.jsonl"


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="protocol", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("run", "plan", "overlap", "tau", "group"))
    parser.add_argument("grid", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--group", help="train one group in this process")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="groups at the same time")
    parser.add_argument("--pair", type=Path, default=TRAINING.parent, help="has target and draft")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--prompts", type=Path, default=PROMPTS, help="of tau")
    parser.add_argument("--limit", type=int, default=256, help="prompts of tau")
    parser.add_argument("--only", default="*", help="GROUP/DRAFTER-BUDGET of tau, as a pattern")
    return parser.parse_args()


def groups(grid: Grid, args: argparse.Namespace):
    """Yield the chosen groups, ready to run."""
    import torch

    from protocol.train import GroupRun

    torch.set_num_threads(1)
    for group in grid.groups:
        if args.group in (None, group.name):
            folder = args.work / group.name
            yield GroupRun(grid, group, folder, args.work, args.pair, not args.no_compile)


def plan(grid: Grid, args: argparse.Namespace) -> None:
    """Print what every training will cost."""
    print("group,drafter,budget,tokens,steps,target_gflop,drafter_gflop")
    for run in groups(grid, args):
        for branch in run.branches():
            micro = branch.steps * grid.windows // grid.micro
            tokens = branch.steps * grid.windows * grid.context
            for name in branch.drafters:
                cost = (round(micro * run.flops[name][x] / 1e9) for x in ("target", "drafter"))
                print(run.group.name, name, branch.name, tokens, branch.steps, *cost, sep=",")


def measure(grid: Grid, args: argparse.Namespace) -> None:
    """Measure what is trained."""
    import torch

    from protocol import evaluate, loops

    torch.set_num_threads(1)
    if args.command == "tau":
        loops.measure(args.work, args.pair, args.prompts, args.limit, args.only)
    else:
        evaluate.evaluate(grid, args.work, args.pair)


def run_all(grid: Grid, args: argparse.Namespace) -> int:
    """Run a process for each group, some at a time; return how many failed."""
    tuning = [group.name for group in grid.groups if group.name in grid.tuning]
    others = [group.name for group in grid.groups if group.name not in grid.tuning]
    # What the others need is chosen when all of tuning has ended.
    return run_some(tuning, args) or run_some(others, args)


def run_some(waiting: list[str], args: argparse.Namespace) -> int:
    """Run a process for each of these groups; return how many failed."""
    running: dict[str, subprocess.Popen] = {}
    failed = 0
    while waiting or running:
        while waiting and len(running) < args.jobs:
            name = waiting.pop(0)
            command = [sys.executable, "-m", "protocol", "group", args.grid, "--group", name]
            command += ["--work", args.work, "--pair", args.pair]
            command += ["--no-compile"] if args.no_compile else []
            (args.work / name).mkdir(exist_ok=True)
            with (args.work / name / "output.txt").open("a") as out:
                running[name] = subprocess.Popen(command, stdout=out, stderr=out)
            print(f"{name}: begun, process {running[name].pid}", flush=True)
        pid, status = os.wait()
        name = next(name for name, process in running.items() if process.pid == pid)
        del running[name]
        failed += status != 0
        print(f"{name}: {'done' if status == 0 else f'failed with {status}'}", flush=True)
    return failed


def main() -> None:
    """Run the command."""
    args = arguments()
    args.grid, args.work = args.grid.resolve(), args.work.resolve()
    try:
        grid = load(args.grid)
    except GridError as error:
        sys.exit(f"protocol: {error}")
    for name in (f"{split}-{kind}" for split in ("train", "test") for kind in KINDS):
        if not (args.work / "shards" / f"{name}.bin").exists():
            sys.exit(f"protocol: {args.work}/shards has no {name}.bin, which {MAKERS} write")
    if args.command == "plan":
        plan(grid, args)
    elif args.command == "run":
        sys.exit(run_all(grid, args) > 0)
    elif args.command in ("overlap", "tau"):
        measure(grid, args)
    else:
        for run in groups(grid, args):
            run.run()


if __name__ == "__main__":
    main()
