"""Times texts of the real pair in specdec and llama.cpp in turns, from the same GGUF files.

    python experiments/08-real-pair/texts.py

Texts are timed as in experiments/90-engine/pair.py, at temperature 0.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import csv
import itertools
from collections.abc import Iterator

import real  # makes the modules below importable
import machine
import pairrows
import pairsummary
from common import PeerError
from decoding import Entry, Pair, Specdec
from llamatext import LlamaText
from pair import Bench, Runner, chosen
from pairrows import MEASURE, PairRow
from pairsummary import LLAMA_CPP
from peers import OURS
from speculative import Speculative, built

TARGET, DRAFT = "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"
# llama.cpp ends a draft before a token that its draft model finds less probable than this. 0 is
# its default; 0.75 was that of earlier versions, and is timed as an engine of its own.
CAUTIOUS = "llama.cpp-p-min"
LEAST_PROBABILITY = {LLAMA_CPP: 0.0, CAUTIOUS: 0.75}
# The settings of speculation from which the sweep chooses: K, and the threads of the draft model.
# specdec chooses these threads by itself, which 0 stands for. Where a probability ends drafts, K
# only limits them.
LENGTHS = (1, 2, 3, 4, 5)
SETTINGS = {
    OURS: (LENGTHS, (0,)),
    LLAMA_CPP: (LENGTHS, (1, 2)),
    CAUTIOUS: (LENGTHS[-1:], (1, 2)),
}
# The conversation as the chat template of the pair writes it.
CHAT = (
    "<|im_start|>system\n"
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\n{question}<|im_end|>\n"
    "<|im_start|>assistant\n"
)
# The decoding with which an entry is compared.
RIVALS = ("llama_cpp_speculative", "llama_cpp_plain", "specdec_plain")
EVERYTHING = "all"


class Runners:
    """The engines, each opened once."""

    def __init__(self, args: argparse.Namespace, target: real.Model, draft: real.Model) -> None:
        pair = Pair(target.file, draft.file)
        program = built(args.work, args.jobs)
        self._dtypes = target.dtype, draft.dtype
        self._drafting: dict[str, Runner] = {
            name: Speculative(program, args.work, args.threads, pair, least_probability=least)
            for name, least in LEAST_PROBABILITY.items()
        }
        self._specdec = Specdec(args.specdec, args.threads, pair, special_tokens=True)
        self._plain = LlamaText(target.file, args.threads, special_tokens=True)

    def of(self, entry: Entry) -> Runner:
        """The engine for an entry."""
        if entry.engine == OURS:
            return self._specdec
        return self._drafting[entry.engine] if entry.k else self._plain

    def plain(self) -> list[Entry]:
        """Plain decoding in both engines."""
        return [Entry(engine, self._dtypes[0], 0) for engine in (OURS, LLAMA_CPP)]

    def speculative(self) -> list[Entry]:
        """The entries from which the sweep chooses."""
        dtype, draft = self._dtypes
        return [
            Entry(engine, dtype, 0, k, draft, threads)
            for engine, settings in SETTINGS.items()
            for k, threads in itertools.product(*settings)
        ]

    def record(self, file: Path, isa: str) -> None:
        """Writes `machine.json`."""
        machine.record(file, isa, f"{TARGET}, texts", [self._plain])

    def close(self) -> None:
        """Frees all models."""
        self._plain.close()


def main() -> None:
    args = arguments()
    found = real.models([TARGET, DRAFT])
    if len(found) < 2:
        sys.exit(1)
    questions = real.prompts(real.QUESTIONS, args.prompts)
    prompts = {name: CHAT.format(question=text) for name, text in questions.items()}
    try:
        out, isa = real.place(args)
        file = out / "texts.csv"
        runners = Runners(args, *found)
        try:
            runners.record(out / "machine.json", isa)
            bench = Bench(runners, args, file)
            step = -(-len(prompts) // args.sweep)
            entries = runners.plain() + chosen(bench, runners, prompts, step)
            for turn in range(args.rounds):
                bench.round(MEASURE, turn, entries, prompts)
        finally:
            runners.close()
    except (ImportError, PeerError) as error:
        sys.exit(f"{error}")
    write(pairrows.load(file), out / "texts-summary.csv")


def arguments() -> argparse.Namespace:
    """The command-line options."""
    parser = real.options(__doc__)
    real.add_prompts(parser, 4)
    parser.add_argument(
        "--sweep", type=real.count, default=3, metavar="N", help="questions of the sweep"
    )
    parser.add_argument("--rounds", type=real.count, default=3)
    parser.add_argument(
        "--jobs", type=real.count, default=2, help="compilers at once for the example"
    )
    return parser.parse_args()


def write(rows: list[PairRow], file: Path) -> None:
    """Writes `texts-summary.csv`: every entry over all questions, and over each category."""
    categories = [EVERYTHING, *dict.fromkeys(category(row) for row in rows)]
    with file.open("w", newline="") as out:
        columns = ["questions", *pairsummary.columns(RIVALS)]
        writer = csv.DictWriter(out, columns, lineterminator="\n", restval="")
        writer.writeheader()
        for name in categories:
            part = [row for row in rows if name in (EVERYTHING, category(row))]
            writer.writerows({"questions": name} | record for record in records(part))


def category(row: PairRow) -> str:
    """The category of a question, with which its id begins."""
    return row.prompt.split("-")[0]


def records(rows: list[PairRow]) -> Iterator[dict[str, object]]:
    """The rows of a summary."""
    grouped = pairsummary.cells(rows, MEASURE)
    theirs = (cell for entry, cell in grouped.items() if entry.engine != OURS and entry.k)
    rivals = (
        pairsummary.fastest_of(theirs),
        pairsummary.fastest(grouped, LLAMA_CPP, 0),
        pairsummary.fastest(grouped, OURS, 0),
    )
    for entry, cell in grouped.items():
        yield pairsummary.record(entry, cell, dict(zip(RIVALS, rivals, strict=True)))


if __name__ == "__main__":
    main()
