"""Times passes of specdec's engine and other engines in turns; see README.md."""

import argparse
import datetime
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

import figure
import machine
import rows
import summary
from common import PeerError, Sample
from peers import ENGINES, Engine, Setup, open_engine
from rows import Row
from weights import DTYPES, SHAPES

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
OURS = "specdec"
# Numbers of tokens per pass.
SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16)
# Tokens of a prefill, which is timed in every third round.
PREFILL = 512
PREFILL_EVERY = 3
# Seconds of pause before a sample, so that the threads of the previous engine go to sleep.
PAUSE = 0.008
# How far logits may differ from ours, relative to the largest logit. Some engines also round
# the inputs of products to bf16 or q8_0, and the error grows over 22 layers; logits of a
# different text differ by 0.4 or more.
NEAR = {"f32": 1e-4, "bf16": 0.1, "q8_0": 0.15}


def main() -> None:
    args = arguments()
    build(args.specdec, ["--bin", "specdec"])
    build(args.candle, ["--example", "candle_peer"])
    if args.check:
        agree = [check(args, shape, dtype) for shape in args.shapes for dtype in args.dtypes]
        sys.exit(not all(agree))
    args.out.mkdir(parents=True, exist_ok=True)
    passes = args.out / "passes.csv"
    if args.fresh:
        rows.keep(passes, lambda row: row.shape not in args.shapes or row.dtype not in args.dtypes)
    done = {(row.shape, row.dtype) for row in rows.load(passes)}
    for shape in args.shapes:
        for dtype in args.dtypes:
            if (shape, dtype) in done:
                print(f"{shape} {dtype}: already measured", flush=True)
            else:
                rows.append(passes, part(args, shape, dtype))
    measured = rows.load(passes)
    summary.write(measured, args.out / "summary.csv")
    figure.draw(measured, args.out)


def arguments() -> argparse.Namespace:
    """The command-line options, with default paths."""
    today = datetime.datetime.now(datetime.UTC).date()
    out = REPOSITORY / "results" / HERE.name / f"{today}-{machine.slug()}"
    release = REPOSITORY / "target" / "release"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=one_of(SHAPES), default=list(SHAPES), metavar="A,B")
    parser.add_argument("--dtypes", type=one_of(DTYPES), default=list(DTYPES), metavar="A,B")
    parser.add_argument("--engines", type=one_of(ENGINES), default=list(ENGINES), metavar="A,B")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=out, metavar="DIR")
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


def build(program: Path, what: list[str]) -> None:
    """Builds a program of this repository if it does not exist."""
    if not program.exists():
        subprocess.run(["cargo", "build", "--release", *what], cwd=REPOSITORY, check=False)


def opened(args: argparse.Namespace, shape: str, dtype: str, name: str) -> Engine | None:
    """Opens an engine; prints the reason and returns None if that fails.

    Exits if the engine is specdec.
    """
    setup = Setup(args.work, args.specdec, args.candle, args.threads, exact_cache=args.check)
    try:
        return open_engine(name, SHAPES[shape], dtype, setup)
    except PeerError as error:
        if name == OURS:
            sys.exit(f"{shape} {dtype}: {name}: {error}")
        print(f"{shape} {dtype}: without {name}: {error}", flush=True)
        return None


def part(args: argparse.Namespace, shape: str, dtype: str) -> list[Row]:
    """Takes all samples of a shape and dtype."""
    found = [opened(args, shape, dtype, name) for name in args.engines]
    engines = [engine for engine in found if engine]
    machine.record(args.out / "machine.json", dtype, engines)
    taken: list[Row] = []

    def take(engine: Engine, kind: str, m: int, turn: int) -> None:
        time.sleep(PAUSE)
        # Another engine ran last, so caches and threads are cold: this pass is not counted.
        engine.pass_(m if kind == "pass" else 1)
        sample = measure(engine, kind, m)
        engine.rest()
        taken.append(
            Row(
                shape=shape,
                dtype=dtype,
                engine=engine.name,
                engine_version=engine.version,
                threads=args.threads,
                kind=kind,
                m=m,
                round=turn,
                micros=round(sample.micros, 3),
                queue_share=round(sample.queue_share, 5),
                kept=int(sample.queue_share <= rows.DISTURBED),
            )
        )

    for turn in range(args.rounds):
        # Rotate the order, so that no engine is always first.
        first = turn % len(engines)
        order = engines[first:] + engines[:first]
        for m in SIZES:
            for engine in order:
                take(engine, "pass", m, turn)
        if turn % PREFILL_EVERY == 0:
            for engine in order:
                take(engine, "prefill", PREFILL, turn)
        take(engines[0], "read", 0, turn)
        print(f"{shape} {dtype}: round {turn + 1} of {args.rounds}", flush=True)
    for engine in engines:
        engine.close()
    return taken


def measure(engine: Engine, kind: str, m: int) -> Sample:
    """Takes one sample."""
    if kind == "pass":
        return engine.pass_(m)
    return engine.prefill(m) if kind == "prefill" else engine.read()


def check(args: argparse.Namespace, shape: str, dtype: str) -> bool:
    """Whether all engines compute nearly the same logits as specdec."""
    ours: dict[int, np.ndarray] = {}
    agree = True
    for name in args.engines:
        engine = opened(args, shape, dtype, name)
        if not engine:
            continue
        for m in (1, 5):
            logits = engine.logits(m)
            reference = ours.setdefault(m, logits)
            gap = float(np.abs(logits - reference).max() / np.abs(reference).max())
            agree &= gap < NEAR[dtype]
            print(f"{shape} {dtype}: {name}: pass of {m}: off by {gap:.1e}", flush=True)
        engine.close()
    return agree


if __name__ == "__main__":
    main()
