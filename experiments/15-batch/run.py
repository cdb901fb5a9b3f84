"""Measures speculation by batch and context on the embedded pair, and simulates it.

    cargo build --release
    python experiments/15-batch/run.py

It needs Python 3.11 or newer, and matplotlib for the figure.
"""

import argparse
import csv
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
BATCHES = (1, 2, 4, 8, 16, 32)
KS = (1, 2, 4)
# The ends of the names of each experiment's results, and its context tokens: those of its prompts
# and half of a text, in the mean.
EXPERIMENTS = {"experiment.toml": ("", 64), "long.toml": ("-long", 924)}
COLUMNS = ("pair", "dtype", "context", "batch", "K", "measured", "lo", "hi", "forecast")
Row = dict[str, object]


class Commands:
    """The program, where its files go, and where it runs."""

    def __init__(self, specdec: Path, out: Path, folder: Path = REPOSITORY) -> None:
        self._specdec = specdec
        self.out = out
        self.folder = folder

    def run(self, *args: object) -> None:
        """Runs a command. Paths are relative: results name no place of this machine."""
        words = (
            os.path.relpath(arg, self.folder) if isinstance(arg, Path) else str(arg)
            for arg in args
        )
        command = [str(self._specdec), *words]
        print(" ".join(command[1:]), flush=True)
        subprocess.run(command, cwd=self.folder, check=True)

    def measured(self, experiment: Path, folder: Path) -> dict[tuple[int, int], dict[str, str]]:
        """The cells of an experiment by batch and K, whose run the folder holds or gets."""
        if not folder.exists():
            self.run("run", experiment, "--out", self.out / "run")
            # An experiment is named after its file, or its folder.
            named = HERE.name if experiment.name == "experiment.toml" else experiment.stem
            (made,) = (self.out / "run" / named).iterdir()
            folder.parent.mkdir(parents=True, exist_ok=True)
            made.rename(folder)
        return {
            (int(cell["batch"]), int(cell["num_speculative_tokens"])): cell
            for cell in read(folder / "summary.csv")
            if cell["drafter"] != "none"
        }

    def write(self, name: str, rows: list[Row]) -> None:
        with (self.out / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--specdec", type=Path, default=REPOSITORY / "target/release/specdec")
    parser.add_argument("--out", type=Path, required=True, help="folder for costs and forecasts")
    parser.add_argument("--runs", type=Path, default=REPOSITORY / "results")
    parser.add_argument("--part", choices=("pair", "figure"), default="pair")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    commands = Commands(args.specdec.resolve(), args.out.resolve())
    if args.part == "pair":
        commands.write("pair.csv", list(of_pair(commands, args.runs.resolve())))
    else:
        from figure import draw

        draw(read(commands.out / "pair.csv"), args.out / "pair.svg")


def of_pair(commands: Commands, runs: Path) -> Iterator[Row]:
    """Measured speedups of the embedded pair, with those that a simulation gives."""
    batches = ",".join(map(str, BATCHES))
    contexts = ",".join(str(context) for _, context in EXPERIMENTS.values())
    costs = commands.out / "costs.csv"
    commands.run(
        "bench", "--draft-dtype", "q8_0", "--seconds", 3, "--costs", costs,
        "--batch", batches, "--contexts", contexts, "--shared",
    )  # fmt: skip
    decoding = without_prompts(commands, costs)
    for name, (end, context) in EXPERIMENTS.items():
        experiment = HERE / name
        folder = runs / HERE.name / (commands.out.name + end)
        measured = commands.measured(experiment, folder)
        tape = commands.out / f"{context}.tape.jsonl"
        if not tape.exists():
            commands.run("tape", "record", experiment, "--out", tape)
            commands.run("tape", "score", tape, "--draft", "embedded-draft", "--draft-dtype", "q8_0")
        batches = {batch for batch, _ in measured}
        expected = {batch: simulated(commands, tape, decoding, batch) for batch in batches}
        for place, cell in measured.items():
            batch, k = place
            yield row("embedded", "f32", context, place, cell, expected[batch][k])


def without_prompts(commands: Commands, costs: Path) -> Path:
    """What passes cost, where reading a prompt takes no time: speedups are those of decoding."""
    path = commands.out / f"decoding-{costs.name}"
    rows = read(costs)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        prompts = ("prefill", "draft_prefill")
        writer.writerows(row | ({"ms": "0"} if row["what"] in prompts else {}) for row in rows)
    return path


def simulated(commands: Commands, tape: Path, costs: Path, batch: int) -> dict[int, str]:
    """Speedups by K where a whole batch begins together and no request follows."""
    commands.run(
        "simulate", tape, "--costs", costs, "--drafter", "model", "--rate", "inf",
        "--requests", batch, "--max-batch", batch, "--step-rows", 1_000_000, "--repeats", 128,
        "--policy", ",".join(f"fixed:{k}" for k in KS), "--csv", commands.out / "simulation.csv",
    )  # fmt: skip
    rows = read(commands.out / "simulation.csv")
    return {int(row["num_speculative_tokens"]): row["throughput"] for row in rows}


def row(
    pair: str,
    dtype: str,
    context: int,
    place: tuple[int, int],
    cell: dict[str, str],
    forecast: str,
) -> Row:
    measured = (cell.get("speedup"), cell.get("speedup_lo"), cell.get("speedup_hi"))
    return dict(zip(COLUMNS, (pair, dtype, context, *place, *measured, forecast), strict=True))


if __name__ == "__main__":
    main()
