"""Times texts of the embedded pair in specdec and llama.cpp in turns; see README.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import contextlib
import itertools
import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import machine
import pairrows
import pairsummary
from common import MODELS, REPOSITORY, PeerError
from decoding import Decoded, Entry, Specdec
from ggufs import QUANTISED, gguf_file
from others import Watch
from pairrows import MEASURE, SWEEP, PairRow
from pairsummary import LLAMA_CPP
from peers import OURS, Setup
from weights import DTYPES

if TYPE_CHECKING:  # llama.cpp may be missing
    from llamatext import LlamaText

HERE = Path(__file__).resolve().parent
PROMPTS = REPOSITORY / "configs" / "prompts" / "code.jsonl"
TEMPERATURES = (0, 1)
# The settings of speculation from which the sweep chooses. specdec chooses the threads of its
# draft model by itself, which 0 stands for.
LENGTHS = (2, 3, 4, 6, 8)
DRAFTS = {
    OURS: [("q8_0", 0), ("bf16", 0)],
    LLAMA_CPP: [("q8_0", 1), ("q8_0", 2), ("bf16", 1), ("bf16", 2)],
}
# The sweep uses every second prompt.
SWEEP_STEP = 2
# Seconds of pause before a text, so that the threads of the previous engine go to sleep.
PAUSE = 0.02


class Runner(Protocol):
    """An engine that generates texts."""

    version: str

    def decode(self, entry: Entry, prompt: str, most: int, seed: int) -> Decoded:
        """Continues a prompt with at most `most` tokens."""

    def rest(self) -> None:
        """Makes the engine's threads sleep, so that they do not occupy cores."""

    def close(self) -> None:
        """Frees the model."""


class Runners:
    """The engines that are available here, each opened once."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._specdec = Specdec(args.specdec, args.threads)
        self._plain: dict[str, "LlamaText"] = {}
        self._speculative: Runner | None = None
        try:
            self._open_llama_cpp(args)
        except (ImportError, OSError, PeerError) as error:
            what = "llama.cpp's example of speculative decoding" if self._plain else LLAMA_CPP
            print(f"skipped: {what}: {error}", flush=True)

    def of(self, entry: Entry) -> Runner:
        """The engine for an entry."""
        if entry.engine == OURS:
            return self._specdec
        return self._speculative if entry.k else self._plain[entry.dtype]

    def plain(self) -> list[Entry]:
        """Plain decoding in every dtype and at every temperature."""
        dtypes = [(OURS, dtype) for dtype in DTYPES]
        dtypes += [(LLAMA_CPP, dtype) for dtype in self._plain]
        return [Entry(*pair, t) for pair, t in itertools.product(dtypes, TEMPERATURES)]

    def speculative(self) -> list[Entry]:
        """The entries from which the sweep chooses; the example is only run at temperature 0."""
        kinds = [(OURS, dtype, t) for dtype in DTYPES for t in TEMPERATURES]
        if self._speculative:
            kinds += [(LLAMA_CPP, dtype, 0) for dtype in self._plain]
        return [
            Entry(*kind, k, *draft)
            for kind in kinds
            for k, draft in itertools.product(LENGTHS, DRAFTS[kind[0]])
        ]

    def record(self, file: Path, isa: str) -> None:
        """Writes `machine.json`."""
        machine.record(file, isa)
        for dtype, runner in self._plain.items():
            machine.record(file, isa, dtype, [runner])

    def close(self) -> None:
        """Frees all models."""
        for runner in self._plain.values():
            runner.close()

    def _open_llama_cpp(self, args: argparse.Namespace) -> None:
        from llamatext import LlamaText
        from speculative import Speculative, built

        for dtype in (*DTYPES, *QUANTISED):
            file = gguf_file(MODELS / "target", dtype, args.work)
            self._plain[dtype] = LlamaText(file, args.threads)
        self._speculative = Speculative(built(args.work, args.jobs), args.work, args.threads)


def main() -> None:
    args = arguments()
    prompts = read_prompts(args.prompts)
    setup = Setup(args.work, args.specdec, args.specdec, args.threads)
    try:
        with opened(args) as runners:
            isa = machine.instruction_set(setup)
            out = args.out or machine.folder(REPOSITORY / "results" / HERE.name, isa)
            out.mkdir(parents=True, exist_ok=True)
            runners.record(out / "machine.json", isa)
            file = out / "pair.csv"
            bench = Bench(runners, args, file)
            entries = runners.plain() + chosen(bench, runners, prompts)
            for turn in range(args.rounds):
                bench.round(MEASURE, turn, entries, prompts)
    except PeerError as error:
        sys.exit(f"{error}")
    pairsummary.write(pairrows.load(file), out / "pair-summary.csv")


def arguments() -> argparse.Namespace:
    """The command-line options, with default paths."""
    specdec = REPOSITORY / "target" / "release" / "specdec"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, metavar="N", help="use only the first N prompts")
    parser.add_argument("--tokens", type=int, default=128, help="new tokens of a text")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2, help="compilers at once for the example")
    parser.add_argument("--out", type=Path, metavar="DIR")
    parser.add_argument("--work", type=Path, default=HERE / "work", metavar="DIR")
    parser.add_argument("--specdec", type=Path, default=specdec, metavar="PATH")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    return args


def read_prompts(most: int | None) -> dict[str, str]:
    """The code prompts of the embedded pair by id."""
    records = [json.loads(line) for line in PROMPTS.read_text().splitlines()]
    return {record["id"]: record["prompt"] for record in records[:most]}


@contextlib.contextmanager
def opened(args: argparse.Namespace) -> Iterator[Runners]:
    """Opens all engines, and closes them at the end."""
    runners = Runners(args)
    try:
        yield runners
    finally:
        runners.close()


class Bench:
    """Generates texts in turns and appends a row for each."""

    def __init__(self, runners: Runners, args: argparse.Namespace, file: Path) -> None:
        self._runners = runners
        self._args = args
        self._prompt_tokens: dict[str, int] = {}
        self.file = file

    def round(self, stage: str, turn: int, entries: list[Entry], prompts: dict[str, str]) -> None:
        """Generates a text per prompt and entry, unless the file has this round."""
        if any((row.stage, row.round) == (stage, turn) for row in pairrows.load(self.file)):
            print(f"{stage} {turn + 1}: already measured", flush=True)
            return
        taken: list[PairRow] = []
        for number, name in enumerate(prompts):
            # Rotate the order, so that no engine is always first.
            first = (turn + number) % len(entries)
            for entry in entries[first:] + entries[:first]:
                taken.append(self._text(stage, turn, entry, name, prompts[name]))
            print(f"{stage} {turn + 1}: prompt {number + 1} of {len(prompts)}", flush=True)
        pairrows.append(self.file, taken)

    def _text(self, stage: str, turn: int, entry: Entry, name: str, prompt: str) -> PairRow:
        runner = self._runners.of(entry)
        time.sleep(PAUSE)
        watch = Watch()
        # Another seed in every round, so that texts at temperature 1 differ.
        decoded = runner.decode(entry, prompt, self._args.tokens, turn)
        share = watch.share()
        runner.rest()
        if self._prompt_tokens.setdefault(name, decoded.prompt_tokens) != decoded.prompt_tokens:
            raise PeerError(f"{entry.engine} splits prompt {name} into other tokens")
        return PairRow(
            stage=stage,
            round=turn,
            prompt=name,
            engine=entry.engine,
            engine_version=runner.version,
            threads=self._args.threads,
            dtype=entry.dtype,
            temperature=entry.temperature,
            k=entry.k,
            draft_dtype=entry.draft_dtype,
            draft_threads=entry.draft_threads,
            new_tokens=decoded.new_tokens,
            decode_us=round(decoded.micros, 1),
            drafted=decoded.drafted,
            accepted=decoded.accepted,
            others_share=round(share, 5),
            kept=int(share <= pairrows.DISTURBED),
        )


def chosen(
    bench: Bench, runners: Runners, prompts: dict[str, str], step: int = SWEEP_STEP
) -> list[Entry]:
    """The fastest settings of every engine, dtype and temperature in a sweep of some prompts.

    llama.cpp's example also gets specdec's K, if that is another.
    """
    names = list(prompts)[::step]
    bench.round(SWEEP, 0, runners.speculative(), {name: prompts[name] for name in names})
    swept = pairsummary.cells(pairrows.load(bench.file), SWEEP)
    best: dict[tuple[str, str, int], Entry] = {}
    for entry in sorted(swept, key=lambda entry: pace(swept[entry])):
        best[entry.engine, entry.dtype, entry.temperature] = entry
    for entry in best.values():
        print(f"chosen: {entry}", flush=True)
    same = [
        Entry(LLAMA_CPP, dtype, 0, entry.k, theirs.draft_dtype, theirs.draft_threads)
        for (engine, dtype, temperature), entry in best.items()
        if (engine, temperature) == (OURS, 0) and (theirs := best.get((LLAMA_CPP, dtype, 0)))
    ]
    return list(dict.fromkeys([*best.values(), *same]))


def pace(cell: pairsummary.Cell) -> float:
    """The speed of an entry over all of its texts that count."""
    counted = cell.counted()
    return pairsummary.speed(counted, list(counted))


if __name__ == "__main__":
    main()
