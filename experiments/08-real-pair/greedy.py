"""Compares greedy texts of real models in specdec and llama.cpp, from the same GGUF files.

    python experiments/08-real-pair/greedy.py

Nothing is timed. Fails if a text differs for another reason than two logits that are closer to
each other than the two engines are. With --exact, both engines are also compared with passes in
f32 on the same weights, in which nothing is rounded to eight bits.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import real  # makes the modules below importable
import machine
import numpy as np
import tables
from common import REPOSITORY, PeerError
from decoding import Entry, Pair, Specdec
from llamatext import LlamaText
from peers import OURS, Setup, open_specdec

CODE = REPOSITORY / "configs" / "prompts" / "code.jsonl"
SAME, TIE, DIFFERENT = "same", "tie", "different"


@dataclass(frozen=True)
class Row:
    """What came of one prompt."""

    model: str
    dtype: str
    prompt: str
    prompt_tokens: int
    new_tokens: int
    # Tokens before the first difference.
    equal: int
    # The index of the first token that differs, and llama.cpp's logit of its own token minus
    # that of specdec's there; empty if there is none.
    first_difference: str
    gap: str
    # Of all logits along llama.cpp's text: the largest difference between the engines, the root
    # of the mean square of all differences, the same of each engine's differences from f32 (empty
    # without --exact), and the standard deviation of llama.cpp's logits.
    largest_difference: str
    typical_difference: str
    specdec_off: str
    llama_cpp_off: str
    logits_deviation: str
    verdict: str


def main() -> None:
    args = arguments()
    chosen = real.models(args.models)
    try:
        out, isa = real.place(args)
        file = out / "greedy.csv"
        names = {model.name for model in chosen}
        kept = [row for row in tables.load(file, Row) if row.model not in names]
        file.unlink(missing_ok=True)
        tables.append(file, Row, kept)
        verdicts: list[str] = []
        for model in chosen:
            rows = compare(args, model, isa, out)
            for row in rows:
                tables.append(file, Row, [row])
                verdicts.append(row.verdict)
    except PeerError as error:
        sys.exit(f"{error}")
    counts = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in (SAME, TIE, DIFFERENT))
    print(f"{len(verdicts)} texts: {counts}")
    sys.exit(DIFFERENT in verdicts)


def arguments() -> argparse.Namespace:
    """The command-line options."""
    parser = real.options(__doc__)
    real.add_models(parser)
    real.add_prompts(parser, 8)
    parser.add_argument("--exact", action="store_true", help="compare with passes in f32, too")
    return parser.parse_args()


def compare(args: argparse.Namespace, model: real.Model, isa: str, out: Path) -> Iterator[Row]:
    """Compares all texts of a model."""
    setup = Setup(args.work, args.specdec, args.specdec, args.threads)
    engines = Engines(model, setup, exact=args.exact)
    machine.record(out / "machine.json", isa, f"{model.name}, exact cache", engines.described())
    try:
        # Code to continue, and questions as plain text.
        prompts = real.prompts(CODE, args.prompts) | real.prompts(real.QUESTIONS, args.prompts)
        for name, prompt in prompts.items():
            row = engines.row(name, prompt, args.tokens)
            equal = f"{row.equal} of {row.new_tokens} tokens"
            print(f"{model.name} {name}: {row.verdict}, {equal}", flush=True)
            yield row
    finally:
        engines.close()


class Engines:
    """A model in both engines; llama.cpp has an f32 cache and no flash attention."""

    def __init__(self, model: real.Model, setup: Setup, *, exact: bool) -> None:
        self._model = model
        pair = Pair(model.file, model.file)
        self._specdec = Specdec(setup.specdec, setup.threads, pair, past_end=True)
        self._passes = open_specdec(model.file, "stored", setup)
        self._exact = open_specdec(model.file, "f32", setup) if exact else None
        self._llama = LlamaText(model.file, setup.threads, exact_cache=True, past_end=True)

    def described(self) -> list[machine.Described]:
        """The engines, for `machine.json`."""
        return [self._passes, self._llama]

    def row(self, name: str, prompt: str, most: int) -> Row:
        """Compares the tokens, the greedy texts and the logits of a prompt."""
        before = self._llama.tokenize(prompt)
        if before != self._specdec.tokenize(prompt):
            raise PeerError(f"{self._model.name} {name}: the engines split the prompt differently")
        entry = Entry(OURS, self._model.dtype, 0)
        ours = self._specdec.decode(entry, prompt, most, 0).tokens
        theirs = self._llama.decode(entry, prompt, most, 0).tokens
        first = parting(ours, theirs)
        gap, seen = 0.0, Comparisons()
        for at, logits in enumerate(self._llama.logits_along(before, theirs)):
            prefix = before + theirs[:at]
            passed = self._passes.logits_after(prefix)
            seen.add(passed, logits, self._exact.logits_after(prefix) if self._exact else None)
            if at <= first:
                expect(f"{self._model.name} {name}", at, (passed, ours), (logits, theirs))
            if at == first:
                gap = float(logits[theirs[at]] - logits[ours[at]])
        parted, largest = first < len(theirs), seen.apart.largest
        verdict = SAME if not parted else TIE if gap <= largest else DIFFERENT
        return Row(
            model=self._model.name,
            dtype=self._model.dtype,
            prompt=name,
            prompt_tokens=len(before),
            new_tokens=len(theirs),
            equal=first,
            first_difference=str(first) if parted else "",
            gap=shown(gap) if parted else "",
            largest_difference=shown(largest),
            typical_difference=shown(seen.apart.typical()),
            specdec_off=shown(seen.ours_off.typical()),
            llama_cpp_off=shown(seen.theirs_off.typical()),
            logits_deviation=shown(seen.deviation.typical()),
            verdict=verdict,
        )

    def close(self) -> None:
        """Frees the model in both engines."""
        self._passes.close()
        self._llama.close()
        if self._exact:
            self._exact.close()


class Differences:
    """Differences between rows of logits."""

    def __init__(self) -> None:
        self.largest = 0.0
        self._squares: list[float] = []

    def add(self, one: np.ndarray, other: np.ndarray) -> None:
        """Adds a row. llama.cpp also has logits for rows of the head that stand for no token."""
        size = min(len(one), len(other))
        difference = np.abs(one[:size].astype(np.float64) - other[:size])
        self.largest = max(self.largest, float(difference.max()))
        self._squares.append(float(np.square(difference).mean()))

    def typical(self) -> float | None:
        """The root of the mean square of all differences."""
        return float(np.sqrt(np.mean(self._squares))) if self._squares else None


class Comparisons:
    """The differences between the engines, and those of each from f32."""

    def __init__(self) -> None:
        self.apart = Differences()
        self.ours_off = Differences()
        self.theirs_off = Differences()
        # From the mean of a row.
        self.deviation = Differences()

    def add(self, ours: np.ndarray, theirs: np.ndarray, exact: np.ndarray | None) -> None:
        """Adds the logits of a token."""
        self.apart.add(ours, theirs)
        self.deviation.add(theirs, np.full_like(theirs, theirs.mean()))
        if exact is not None:
            self.ours_off.add(ours, exact)
            self.theirs_off.add(theirs, exact)


def shown(number: float | None) -> str:
    """A number in a row; nothing if there is none."""
    return "" if number is None else f"{number:.4f}"


def parting(ours: list[int], theirs: list[int]) -> int:
    """The number of tokens before the first difference of two texts."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(ours), len(theirs)))


def expect(what: str, at: int, *engines: tuple[np.ndarray, list[int]]) -> None:
    """Requires that the logits at a position prefer the tokens that were generated there.

    Otherwise they would not be those of the texts, and say nothing about them.
    """
    for logits, text in engines:
        if at < len(text) and logits[text[at]] != logits.max():
            raise PeerError(f"{what}: the logits of token {at} prefer another than was generated")


if __name__ == "__main__":
    main()
