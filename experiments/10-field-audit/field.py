"""Lets other engines write texts of the embedded pair, for `specdec audit`.

    pip install -r experiments/10-field-audit/requirements.txt
    python experiments/10-field-audit/field.py --work WORK --out OUT

Every engine has a venv or a build in WORK; OUT/ARM.jsonl has the texts of an arm. A run that was
cut continues. `--arms` names some arms in the order given, with * and ? for any characters.
"""

import argparse
import fnmatch
import importlib
import json
import signal
import sys
import time
from pathlib import Path

from arms import ARMS
from common import ROOT, TARGET, Arm, Failed, Job, Texts

PROMPTS = ("code", "docs", "edits")
# Between the seeds of two repeats; there are fewer prompts than that.
SEEDS = 1000


def jobs(texts: int, max_tokens: int) -> list[Job]:
    """Every prompt once, in turns of the sets, then again; every text has a seed of its own."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(TARGET / "tokenizer.json"))
    lines = [
        json.loads(line)
        for name in PROMPTS
        for line in (ROOT / f"configs/prompts/{name}.jsonl").read_text().splitlines()
    ]
    per_set = len(lines) // len(PROMPTS)
    order = sorted(range(len(lines)), key=lambda number: number % per_set)
    ids = [tokenizer.encode(line["prompt"]).ids for line in lines]
    made = []
    while len(made) < texts:
        repeat = len(made) // len(lines) + 1
        made += [
            Job(lines[number]["id"], ids[number], SEEDS * repeat + number, max_tokens)
            for number in order
        ]
    return made[:texts]


def run(arm: Arm, asked: list[Job], out: Path, work: Path) -> str:
    """Writes the texts of an arm that are missing; says what came of it."""
    begin, before = time.monotonic(), Texts(out, arm.sampling)
    left = before.missing(asked)
    if left:
        try:
            importlib.import_module(arm.engine).write(arm, left, out, work)
        except Failed as failed:
            return f"skipped: {failed}"
    after = Texts(out, arm.sampling)
    seconds = time.monotonic() - begin
    return f"{after.tokens} tokens, {after.tokens - before.tokens} of them in {seconds:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arms", default="*", help="names with * and ?, and commas between them")
    parser.add_argument("--texts", type=int, default=240, help="texts per arm")
    parser.add_argument("--max-tokens", type=int, default=128)
    args = parser.parse_args()
    # So that the engine's process ends, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    work, out = args.work.resolve(), args.out.resolve()
    for folder in (work, out):
        folder.mkdir(parents=True, exist_ok=True)
    asked = jobs(args.texts, args.max_tokens)
    for pattern in args.arms.split(","):
        for arm in (arm for arm in ARMS if fnmatch.fnmatch(arm.name, pattern)):
            print(f"{arm.name}: {arm.engine} {arm.version}", end=": ", flush=True)
            print(run(arm, asked, out / f"{arm.name}.jsonl", work), flush=True)


if __name__ == "__main__":
    main()
