"""Asks specdec for completions and keeps them, so that an interrupted experiment can continue."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SEED = 11


@dataclass(frozen=True)
class Row:
    """A generated text."""

    model: str
    request: str
    problem: str
    kind: str
    # How it was decoded: "plain" or "speculative", at temperature 0 with "greedy-" before it.
    method: str
    sample: int
    # For calculations: the last number of the text, or nothing. For functions: nothing.
    answer: str
    # Whether the answer is right, or the function parses.
    correct: bool
    tokens: int
    target_passes: int
    draft_passes: int
    decode_seconds: float
    # Empty at temperature 0.
    log_prob: float | str
    stop_reason: str
    text_sha256: str



@dataclass(frozen=True)
class Question:
    """What a model is asked, and how."""

    model: str
    request: str
    problem: str
    prompt: str
    method: str
    options: tuple[str, ...]
    samples: int

    @property
    def key(self) -> list[str | int]:
        """What distinguishes questions in the kept file."""
        return [self.model, self.request, self.problem, self.method, self.samples, *self.options]


def prompts(file: Path) -> dict[str, str]:
    """The prompts of a file by id."""
    records = [json.loads(line) for line in file.read_text().splitlines()]
    return {record["id"]: record["prompt"] for record in records}


class Texts:
    """Texts from `specdec generate --samples`, each question in a process of its own.

    `specdec run` with repeats would load the models once, but it decodes every text of a
    seed-exact method twice by plain decoding, once of them untimed, and all of these texts would
    have to be generated. Here the texts of plain decoding can be fewer, and are the same texts.
    """

    def __init__(self, program: Path, file: Path) -> None:
        self.program, self.file = program, file
        lines = file.read_text().splitlines() if file.exists() else []
        kept = [json.loads(line) for line in lines]
        self.kept = {json.dumps(record["question"]): record["texts"] for record in kept}

    def ask(self, question: Question) -> list[dict]:
        """The texts of a question: those that are kept, or new ones."""
        key = json.dumps(question.key)
        if key not in self.kept:
            self.kept[key] = self._generated(question)
            with self.file.open("a") as out:
                record = {"question": question.key, "texts": self.kept[key]}
                out.write(json.dumps(record) + "\n")
        return self.kept[key]

    def _generated(self, question: Question) -> list[dict]:
        command = [str(self.program), "generate", "--json", "--seed", str(SEED)]
        command += ["--samples", str(question.samples), *question.options]
        # The program removes one newline from what it reads; that of a heading is to stay.
        asked = question.prompt + "\n"
        done = subprocess.run(command, input=asked, capture_output=True, text=True, cwd=REPOSITORY)
        if done.returncode:
            sys.exit(f"{question.problem}: {done.stderr.strip()}")
        return json.loads(done.stdout)["texts"]


def table(file: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def greedy(program: Path, experiment: Path, problems: int, out: Path) -> Path:
    """The results folder of an experiment, which is run unless it is there and finished."""
    place = out / f"{experiment.stem}-{problems}"
    if not (found := sorted(place.glob("*/*/report.md"))):
        # Relative paths, since the results folder records the command.
        paths = [os.path.relpath(path, REPOSITORY) for path in (experiment, place)]
        command = [str(program), "run", paths[0], "--out", paths[1]]
        command += ["--set", f"prompts_limit={problems}"]
        done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"{experiment.name} failed")
        found = sorted(place.glob("*/*/report.md"))
    return found[-1].parent


def greedy_texts(folder: Path) -> Iterator[dict]:
    """The texts of a results folder that count, with their times and drafters."""
    lines = (folder / "generations.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    texts = {(record["cell"], record["prompt"]): record["text"] for record in records}
    drafters = {record["cell"]: record["drafter"] for record in table(folder / "summary.csv")}
    for record in table(folder / "generations.csv"):
        if record["superseded"] == "false":
            text = texts[record["cell"], record["prompt"]]
            yield {**record, "text": text, "drafter": drafters[record["cell"]]}
