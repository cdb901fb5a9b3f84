"""Measures speculation by batch and context on larger shapes, and simulates it.

    cargo build --release
    python experiments/15-batch/shapes.py --work WORK --out FOLDER
    python experiments/15-batch/shapes.py --work WORK --out FOLDER --only 110m-f32-64

Weights are random: at T = 1 both distributions are nearly uniform, so that a draft model accepts about as
much as a trained one of the embedded pair, and rounds take what they take in a trained model. A
run that was cut continues. It needs the packages of 90-engine/requirements.txt.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product

from run import REPOSITORY, Commands, Row, row, simulated, without_prompts

sys.path.insert(0, str(REPOSITORY / "experiments" / "90-engine"))
import weights  # noqa: E402

SEED = 15
TOKENS = 32
# Texts at once, by the context.
BATCHES = {64: (1, 2, 4, 8, 16), 1024: (1, 4, 16), 4096: (1, 4, 16)}
KS = (1, 2)
# Shapes with the draft shape and dtypes, and how many prompts by the context. Where the prefill
# of all takes too long, few batches of 16 are left, and a slow moment of the machine counts more.
SHAPES = {
    "110m": ("15m", ("f32", "q8_0"), {64: 64, 1024: 64, 4096: 32}),
    "1.1b": ("110m", ("q8_0",), {64: 64, 1024: 16}),
}
EXPERIMENT = """\
question = "Up to which batch does speculation pay, with {shape} in {dtype} after {context} tokens?"
target = "{shape}"
draft = "{draft}"
dtype = "{dtype}"
prompts = "{prompts}"
max_tokens = {tokens}
repeats = 1
seed = {seed}

[sweep]
batch = {batches}
drafter = "model"
num_speculative_tokens = {ks}
temperature = 1
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--specdec", type=Path, default=REPOSITORY / "target/release/specdec")
    parser.add_argument("--work", type=Path, required=True, help="folder for models and tapes")
    parser.add_argument("--out", type=Path, required=True, help="folder for costs and forecasts")
    parser.add_argument("--only", default="", help="the beginning of a name, such as 110m-f32")
    args = parser.parse_args()
    for folder in (args.work, args.out):
        folder.mkdir(parents=True, exist_ok=True)
    # Models are named by their folders there.
    commands = Commands(args.specdec.resolve(), args.out.resolve(), args.work.resolve())
    for shape, (draft, dtypes, places) in SHAPES.items():
        for dtype, (context, count) in product(dtypes, places.items()):
            case = Case(shape, draft, dtype, context, count)
            if case.name.startswith(args.only):
                commands.write(f"{case.name}.csv", list(of_case(commands, case)))


@dataclass(frozen=True)
class Case:
    """What is measured: a shape with its draft shape, the tokens before a round, and prompts."""

    shape: str
    draft: str
    dtype: str
    context: int
    count: int

    @property
    def name(self) -> str:
        return f"{self.shape}-{self.dtype}-{self.context}"


def of_case(commands: Commands, case: Case) -> Iterator[Row]:
    """Measured speedups, with those that a simulation gives."""
    for name in (case.shape, case.draft):
        weights.folder(weights.SHAPES[name], commands.folder)
    batches = BATCHES[case.context]
    costs = commands.out / f"costs-{case.name}.csv"
    if not costs.exists():
        commands.run(
            "bench", "--target", case.shape, "--draft", case.draft, "--dtype", case.dtype,
            "--seconds", 12, "--costs", costs, "--batch", ",".join(map(str, batches)),
            "--contexts", case.context,
        )  # fmt: skip
    experiment = commands.folder / f"{case.name}.toml"
    asked = {"prompts": prompts(commands.folder, case), "batches": list(batches)}
    fixed = {"tokens": TOKENS, "seed": SEED, "ks": list(KS)}
    experiment.write_text(EXPERIMENT.format(**asdict(case), **asked, **fixed))
    measured = commands.measured(experiment, commands.out / case.name)
    tape = commands.folder / f"{case.name}.tape.jsonl"
    if not tape.exists():
        commands.run("tape", "record", experiment, "--out", tape)
        commands.run("tape", "score", tape, "--draft", case.draft, "--draft-dtype", case.dtype)
    decoding = without_prompts(commands, costs)
    for batch in batches:
        expected = simulated(commands, tape, decoding, batch)
        for k in KS:
            place = batch, k
            yield row(case.shape, case.dtype, case.context, place, measured[place], expected[k])


def prompts(folder: Path, case: Case) -> str:
    """A file of prompts of random tokens, so long that half of a text ends at the context."""
    dice = random.Random(f"{SEED} {case.context}")
    file = folder / f"{case.context}.jsonl"
    length = case.context - TOKENS // 2
    with file.open("w") as out:
        for number in range(case.count):
            words = (f"t{dice.randrange(weights.VOCAB)}" for _ in range(length))
            print(json.dumps({"id": f"random-{number:02}", "prompt": " ".join(words)}), file=out)
    return file.name


if __name__ == "__main__":
    main()
