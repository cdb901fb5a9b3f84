"""What the comparisons with llama.cpp share: the models, the options and the place of results.

The modules of experiments/90-engine can be imported after this one.
"""

import argparse
import importlib.util
import json
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import fetch

HERE = Path(__file__).resolve().parent
ENGINE = HERE.parent / "90-engine"
sys.path.insert(0, str(ENGINE))
if missing := [
    package
    for package in ("gguf", "llama_cpp", "matplotlib", "numpy")
    if not importlib.util.find_spec(package)
]:
    sys.exit(f"no {', '.join(missing)}: install them as the README of {ENGINE.name} says")

import machine
from common import REPOSITORY
from peers import Setup

QUESTIONS = HERE / "questions.jsonl"


@dataclass(frozen=True)
class Model:
    """A model of this experiment."""

    name: str
    file: Path

    @property
    def dtype(self) -> str:
        """The type of its file, like q4_k_m."""
        return self.file.stem.rsplit("-", 1)[1]


def options(about: str) -> argparse.ArgumentParser:
    """The command-line options that all comparisons have."""
    specdec = REPOSITORY / "target" / "release" / "specdec"
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--out", type=Path, metavar="DIR")
    parser.add_argument("--work", type=Path, default=ENGINE / "work", metavar="DIR")
    parser.add_argument("--specdec", type=Path, default=specdec, metavar="PATH")
    return parser


def count(text: str) -> int:
    """Parses a number of things that there must be."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: allowed is a whole number from 1 on")
    return int(text)


def add_prompts(parser: argparse.ArgumentParser, most: int) -> None:
    """Adds the options that choose the texts; `most` is the usual number of a category."""
    parser.add_argument(
        "--prompts", type=count, default=most, metavar="N", help="the first N of every category"
    )
    parser.add_argument("--tokens", type=count, default=64, help="new tokens of a text")


def add_models(parser: argparse.ArgumentParser) -> None:
    """Adds the option that chooses models."""
    names = list(fetch.MODELS)
    parser.add_argument("--models", nargs="+", choices=names, default=names, metavar="NAME")


def models(names: list[str]) -> list[Model]:
    """The models whose files are there; says which are skipped, and exits if all are."""
    named = [Model(name, fetch.FOLDER / fetch.MODELS[name].file) for name in names]
    for model in named:
        if not model.file.exists():
            script = (HERE / "fetch.py").relative_to(REPOSITORY)
            print(f"skipped: {model.name}; python {script} puts it there", flush=True)
    found = [model for model in named if model.file.exists()]
    return found or sys.exit("there is no model to compare")


def prompts(file: Path, most: int) -> dict[str, str]:
    """The first `most` prompts of every category of a file by id."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in file.read_text().splitlines():
        record = json.loads(line)
        if len(found[record["category"]]) < most:
            found[record["category"]][record["id"]] = record["prompt"]
    return {name: prompt for part in found.values() for name, prompt in part.items()}


def place(args: argparse.Namespace) -> tuple[Path, str]:
    """The folder for results, which exists afterwards, and specdec's instruction set."""
    isa = machine.instruction_set(Setup(args.work, args.specdec, args.specdec, args.threads))
    usual = machine.folder(REPOSITORY / "results" / HERE.name, isa)
    out = args.out or usual.with_name(f"{usual.name}-llama.cpp")
    out.mkdir(parents=True, exist_ok=True)
    return out, isa
