"""Measures speculation by batch and context on the embedded pair, and simulates it beside.

    cargo build --release
    python experiments/15-batch/run.py

It needs Python 3.11 or newer, and matplotlib for the figure. `--part shapes` forecasts larger
shapes from what passes of random weights cost and the embedded pair's acceptance.
"""

import argparse
import csv
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
# Shapes with the draft shape, dtypes and contexts that are timed, and the batches.
SHAPES = {
    "110m": ("15m", ("f32", "q8_0"), (64, 1024, 4096)),
    "1.1b": ("110m", ("q8_0",), (64, 1024)),
}
SHAPE_BATCHES = (1, 2, 4, 8, 16)
COLUMNS = ("pair", "dtype", "context", "batch", "K", "measured", "lo", "hi", "forecast")
Row = dict[str, object]


class Commands:
    """The program, and where its files go."""

    def __init__(self, specdec: Path, out: Path) -> None:
        self._specdec = specdec
        self.out = out

    def run(self, *args: object) -> None:
        """Runs a command in the repository."""
        command = [str(self._specdec), *map(str, args)]
        print(" ".join(command[1:]), flush=True)
        subprocess.run(command, cwd=REPOSITORY, check=True)

    def rows(self, name: str) -> list[dict[str, str]]:
        with (self.out / name).open(newline="") as file:
            return list(csv.DictReader(file))

    def write(self, name: str, rows: list[Row]) -> None:
        with (self.out / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--specdec", type=Path, default=REPOSITORY / "target/release/specdec")
    parser.add_argument("--out", type=Path, required=True, help="folder for costs and forecasts")
    parser.add_argument("--runs", type=Path, default=REPOSITORY / "results")
    parser.add_argument("--part", choices=("pair", "shapes", "figure"), default="pair")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    commands = Commands(args.specdec.resolve(), args.out.resolve())
    if args.part == "pair":
        commands.write("pair.csv", list(of_pair(commands, args.runs.resolve())))
    elif args.part == "shapes":
        commands.write("shapes.csv", list(of_shapes(commands)))
    else:
        from figure import draw

        draw(commands.rows("pair.csv"), args.out / "pair.svg")


def of_pair(commands: Commands, runs: Path) -> Iterator[Row]:
    """Measured speedups of the embedded pair, with those that a simulation gives."""
    batches = ",".join(map(str, BATCHES))
    contexts = ",".join(str(context) for _, context in EXPERIMENTS.values())
    commands.run(
        "bench", "--draft-dtype", "q8_0", "--seconds", 3, "--costs", commands.out / "costs.csv",
        "--batch", batches, "--contexts", contexts, "--shared",
    )  # fmt: skip
    costs = without_prompts(commands)
    for name, (end, context) in EXPERIMENTS.items():
        experiment = HERE / name
        folder = runs / HERE.name / (commands.out.name + end)
        if not folder.exists():
            commands.run("run", experiment, "--out", commands.out / "run")
            # An experiment is named after its file, or its folder.
            named = HERE.name if name == "experiment.toml" else experiment.stem
            (made,) = (commands.out / "run" / named).iterdir()
            folder.parent.mkdir(parents=True, exist_ok=True)
            made.rename(folder)
        tape = commands.out / f"{context}.tape.jsonl"
        if not tape.exists():
            commands.run("tape", "record", experiment, "--out", tape)
            commands.run("tape", "score", tape, "--draft", "embedded-draft", "--draft-dtype", "q8_0")
        with (folder / "summary.csv").open(newline="") as file:
            cells = [cell for cell in csv.DictReader(file) if cell["drafter"] != "none"]
        measured = {int(cell["batch"]) for cell in cells}
        expected = {batch: simulated(commands, tape, costs, batch) for batch in measured}
        for cell in cells:
            batch, k = int(cell["batch"]), int(cell["num_speculative_tokens"])
            yield row("embedded", "f32", context, (batch, k), cell, expected[batch][k])


def without_prompts(commands: Commands) -> Path:
    """What passes cost, where reading a prompt takes no time: speedups are those of decoding."""
    path = commands.out / "costs-of-decoding.csv"
    rows = commands.rows("costs.csv")
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        prompts = ("prefill", "draft_prefill")
        writer.writerows(row | ({"ms": "0"} if row["what"] in prompts else {}) for row in rows)
    return path


def simulated(commands: Commands, tape: Path, costs: Path, batch: int) -> dict[int, str]:
    """Speedups by K where so many texts begin together and none follows them."""
    commands.run(
        "simulate", tape, "--costs", costs, "--drafter", "model", "--rate", "inf",
        "--requests", batch, "--max-batch", batch, "--step-rows", 1_000_000, "--repeats", 128,
        "--policy", ",".join(f"fixed:{k}" for k in KS), "--csv", commands.out / "simulation.csv",
    )  # fmt: skip
    rows = commands.rows("simulation.csv")
    return {int(row["num_speculative_tokens"]): row["throughput"] for row in rows}


def of_shapes(commands: Commands) -> Iterator[Row]:
    """Forecasts for shapes with the acceptance of the embedded pair after short contexts."""
    tape = commands.out / f"{EXPERIMENTS['experiment.toml'][1]}.tape.jsonl"
    batches = ",".join(map(str, SHAPE_BATCHES))
    for shape, (draft, dtypes, contexts) in SHAPES.items():
        for dtype in dtypes:
            costs = commands.out / f"costs-{shape}-{dtype}.csv"
            if not costs.exists():
                commands.run(
                    "bench", "--shape", shape, "--draft-shape", draft, "--dtype", dtype,
                    "--seconds", 12, "--costs", costs, "--batch", batches,
                    "--contexts", ",".join(map(str, contexts)),
                )  # fmt: skip
            for context in contexts:
                forecast = f"forecast-{shape}-{dtype}-{context}.csv"
                commands.run(
                    "forecast", tape, "--costs", costs, "--batch", batches,
                    "--context", context, "--csv", commands.out / forecast,
                )  # fmt: skip
                for place, expected in by_place(commands.rows(forecast)).items():
                    yield row(shape, dtype, context, place, {}, expected)


def by_place(rows: list[dict[str, str]]) -> dict[tuple[int, int], str]:
    """Forecast speedups of the draft model's chains, by batch and K."""
    found = {}
    for line in rows:
        k = int(line["num_speculative_tokens"] or 0)
        if line["verifier"] == "rejection" and line["drafter"] == "model" and k in KS:
            found[int(line["batch"]), k] = line["speedup"]
    return found


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
