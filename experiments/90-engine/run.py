"""Times passes of specdec's engine and other engines in turns; see README.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import contextlib
import itertools
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np

import bars
import figure
import machine
import peak
import rows
import summary
from common import CONTEXT, PREFILL, REPOSITORY, PeerError, Sample
from peers import ENGINES, OURS, VARIANTS, Engine, Setup, open_engine
from rows import Row
from weights import DTYPES, POSITIONS, SHAPES

HERE = Path(__file__).resolve().parent
# Numbers of tokens per pass: after the default context, and after any other.
SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16)
FEW_SIZES = (1, 5, 9)
# A prefill and the peak of multiply-adds are timed in every third round.
RARELY = 3
# Seconds of pause before a sample, so that the threads of the previous engine go to sleep.
PAUSE = 0.008
# How far logits may differ from ours, relative to the largest logit. Some engines also round
# the inputs of products to bf16 or q8_0, and the error grows over 22 layers; logits of a
# different text differ by 0.4 or more. Four bits change the logits of random weights nearly as
# much, so their bound only excludes sums that are wrong altogether; `pair_check.py` compares
# them on trained weights.
NEAR = {"f32": 1e-4, "bf16": 0.1, "q8_0": 0.15, "q4_0": 0.6, "q4_k_m": 0.6}


def main() -> None:
    args = arguments()
    build(args.specdec, ["--bin", "specdec"])
    if "candle" in args.engines:
        build(args.candle, ["--example", "candle_peer"])
    parts = list(itertools.product(args.shapes, args.dtypes, args.contexts))
    if args.check:
        agree = [check(args, *part) for part in parts]
        sys.exit(not all(agree))
    try:
        isa = machine.instruction_set(setup(args, CONTEXT))
    except PeerError as error:
        sys.exit(f"specdec: {error}")
    out = args.out or machine.folder(REPOSITORY / "results" / HERE.name, isa)
    out.mkdir(parents=True, exist_ok=True)
    passes = out / "passes.csv"
    # Writes the file anew, with the columns of this version.
    rows.keep(passes, lambda row: not args.fresh or part_of(row) not in parts)
    done = {part_of(row) for row in rows.load(passes)}
    for part in parts:
        if part in done:
            print(f"{' '.join(map(str, part))}: already measured", flush=True)
            continue
        with opened_all(args, *part) as engines:
            machine.record(out / "machine.json", isa, part[1], engines)
            rows.append(passes, Sampling(args, *part, engines).rounds())
    measured = rows.load(passes)
    summary.write(measured, out / "summary.csv")
    bars.write(bars.bars(measured, isa), out / "bars.csv")
    figure.draw(measured, out)


def arguments() -> argparse.Namespace:
    """The command-line options, with default paths."""
    release = REPOSITORY / "target" / "release"
    usual = [engine for engine in ENGINES if engine != "llama.cpp-fa-off"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=one_of(SHAPES), default=list(SHAPES), metavar="A,B")
    parser.add_argument("--dtypes", type=one_of(DTYPES), default=list(DTYPES), metavar="A,B")
    parser.add_argument("--engines", type=one_of(ENGINES), default=usual, metavar="A,B")
    parser.add_argument("--contexts", type=contexts, default=[CONTEXT], metavar="N,M")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, metavar="DIR")
    parser.add_argument("--work", type=Path, default=HERE / "work", metavar="DIR")
    parser.add_argument("--specdec", type=Path, default=release / "specdec", metavar="PATH")
    parser.add_argument(
        "--candle", type=Path, default=release / "examples" / "candle_peer", metavar="PATH"
    )
    parser.add_argument("--fresh", action="store_true", help="repeat measurements that exist")
    parser.add_argument("--check", action="store_true", help="compare logits instead of timing")
    args = parser.parse_args()
    if OURS not in args.engines:
        args.engines.insert(0, OURS)
    args.work.mkdir(parents=True, exist_ok=True)
    return args


def one_of(allowed: Iterable[str]) -> Callable[[str], list[str]]:
    """A parser of comma-separated names that must all be `allowed`."""

    def read(text: str) -> list[str]:
        found = text.split(",")
        for name in found:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name} is not one of {', '.join(allowed)}")
        return found

    return read


def contexts(text: str) -> list[int]:
    """Parses comma-separated numbers of context tokens."""
    most = POSITIONS - max(SIZES)
    found = [int(part) if part.isdecimal() else 0 for part in text.split(",")]
    if not all(1 < context <= most for context in found):
        raise argparse.ArgumentTypeError(f"{text}: allowed are numbers from 2 to {most}")
    return found


def build(program: Path, what: list[str]) -> None:
    """Builds a program of this repository if it does not exist."""
    if not program.exists():
        subprocess.run(["cargo", "build", "--release", *what], cwd=REPOSITORY, check=False)


def setup(args: argparse.Namespace, context: int) -> Setup:
    """The settings with which engines are opened."""
    return Setup(
        args.work, args.specdec, args.candle, args.threads, context, exact_cache=args.check
    )


def part_of(row: Row) -> tuple[str, str, int]:
    """The part of the run to which a row belongs."""
    return row.shape, row.dtype, row.context


def opened(
    args: argparse.Namespace, shape: str, dtype: str, context: int, name: str
) -> Engine | None:
    """Opens an engine; prints the reason and returns None if that fails.

    Exits if the engine is specdec.
    """
    try:
        return open_engine(name, SHAPES[shape], dtype, setup(args, context))
    except PeerError as error:
        if name == OURS:
            sys.exit(f"{shape} {dtype} {context}: {name}: {error}")
        print(f"{shape} {dtype} {context}: without {name}: {error}", flush=True)
        return None


@contextlib.contextmanager
def opened_all(
    args: argparse.Namespace, shape: str, dtype: str, context: int
) -> Iterator[list[Engine]]:
    """Opens all engines that can run a part, and closes them at the end."""
    found = [opened(args, shape, dtype, context, name) for name in args.engines]
    engines = [engine for engine in found if engine]
    try:
        yield engines
    finally:
        for engine in engines:
            engine.close()


class Sampling:
    """Takes all samples of a part."""

    def __init__(
        self,
        args: argparse.Namespace,
        shape: str,
        dtype: str,
        context: int,
        engines: list[Engine],
    ) -> None:
        self._args = args
        self._part = shape, dtype, context
        self._engines = engines
        self._taken: list[Row] = []

    def rounds(self) -> list[Row]:
        """Takes the samples round by round."""
        shape, dtype, context = self._part
        usual = context == CONTEXT
        for turn in range(self._args.rounds):
            # Rotate the order, so that no engine is always first.
            first = turn % len(self._engines)
            order = self._engines[first:] + self._engines[:first]
            for m in SIZES if usual else FEW_SIZES:
                for engine in order:
                    self._take(engine, "pass", m, turn)
            if usual and turn % RARELY == 0:
                for engine in order:
                    self._take(engine, "prefill", PREFILL, turn)
            self._take(self._engines[0], "read", 0, turn)
            if turn % RARELY == 0:
                self._take_peak(turn)
            done = f"round {turn + 1} of {self._args.rounds}"
            print(f"{shape} {dtype} {context}: {done}", flush=True)
        return self._taken

    def _take(self, engine: Engine, kind: str, m: int, turn: int) -> None:
        time.sleep(PAUSE)
        # Another engine ran last, so caches and threads are cold: this pass is not counted.
        engine.pass_(m if kind == "pass" else 1)
        sample = measure(engine, kind, m)
        engine.rest()
        self._add(engine, kind, m, turn, sample)

    def _take_peak(self, turn: int) -> None:
        time.sleep(PAUSE)
        sample = peak.measure(self._args.specdec, self._args.threads)
        if sample:
            self._add(self._engines[0], "peak", 0, turn, sample)
        else:
            print("no peak: too few undisturbed samples", flush=True)

    def _add(self, engine: Engine, kind: str, m: int, turn: int, sample: Sample) -> None:
        shape, dtype, context = self._part
        self._taken.append(
            Row(
                shape=shape,
                dtype=dtype,
                engine=engine.name,
                engine_version=engine.version,
                threads=self._args.threads,
                kind=kind,
                m=m,
                context=context,
                round=turn,
                micros=round(sample.micros, 3),
                queue_share=round(sample.queue_share, 5),
                kept=int(sample.queue_share <= rows.DISTURBED),
            )
        )


def measure(engine: Engine, kind: str, m: int) -> Sample:
    """Takes one sample."""
    if kind == "pass":
        return engine.pass_(m)
    return engine.prefill() if kind == "prefill" else engine.read()


def check(args: argparse.Namespace, shape: str, dtype: str, context: int) -> bool:
    """Whether all engines compute nearly the same logits as specdec."""
    ours: dict[int, np.ndarray] = {}
    agree = True
    for name in args.engines:
        engine = opened(args, shape, dtype, context, name)
        if not engine:
            continue
        stored = VARIANTS[name].dtype if name in VARIANTS else None
        stored = stored or dtype
        for m in (1, 5):
            logits = engine.logits(m)
            reference = ours.setdefault(m, logits)
            gap = float(np.abs(logits - reference).max() / np.abs(reference).max())
            agree &= gap < NEAR[stored]
            print(f"{shape} {dtype} {context}: {name}: pass of {m}: off by {gap:.1e}", flush=True)
        engine.close()
    return agree


if __name__ == "__main__":
    main()
