"""Times passes of several sequences in specdec and llama.cpp, in turns; see README.md.

Every sequence has one row and a cache of its own, after the same number of tokens. In specdec a
pass over as many rows of one sequence is timed next to it, one whose sequences share their context,
and passes over several rows of each sequence. `--alone` leaves llama.cpp out.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import csv
import statistics
import time

import machine
import weights
from common import CONTEXT, REPOSITORY, Sample
from ggufs import gguf_file
from peers import Setup, open_specdec
from weights import SHAPES

HERE = Path(__file__).resolve().parent
BATCHES = (1, 2, 4, 8, 16)
# Rows of each sequence, where there are several, by the number of sequences.
ROWS = {2: 5, 4: 5, 8: 4}
# Seconds of pause before a sample, so that the threads of the previous engine go to sleep.
PAUSE = 0.008
# Share of a sample that its threads may wait for a core.
MOST_WAIT = 0.02
COLUMNS = ("shape", "dtype", "context", "engine", "batch", "rows", "shared", "micros", "queue_share")


def main() -> None:
    args = arguments()
    isa = machine.instruction_set(setup(args, CONTEXT))
    out = args.out or machine.folder(REPOSITORY / "results" / HERE.name, isa)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "batches.csv"
    begun = file.exists()
    with file.open("a", newline="") as rows:
        writer = csv.DictWriter(rows, COLUMNS, lineterminator="\n")
        if not begun:
            writer.writeheader()
        for dtype in args.dtypes.split(","):
            for context in map(int, args.contexts.split(",")):
                writer.writerows(measured(args, dtype, context, (out / "machine.json", isa)))
                rows.flush()
    summary(file)


def arguments() -> argparse.Namespace:
    release = REPOSITORY / "target" / "release"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="110m", choices=list(SHAPES))
    parser.add_argument("--dtypes", default="f32,bf16,q8_0", metavar="A,B")
    parser.add_argument("--contexts", default=str(CONTEXT), metavar="TOKENS,…")
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    parser.add_argument("--work", type=Path, default=HERE / "work", metavar="DIR")
    parser.add_argument("--specdec", type=Path, default=release / "specdec", metavar="PATH")
    parser.add_argument("--candle", type=Path, default=Path(), help=argparse.SUPPRESS)
    parser.add_argument("--alone", action="store_true", help="specdec alone")
    parser.add_argument("--out", type=Path, metavar="DIR")
    return parser.parse_args()


def setup(args: argparse.Namespace, context: int) -> Setup:
    return Setup(args.work, args.specdec, args.candle, args.threads, context)


def measured(
    args: argparse.Namespace, dtype: str, context: int, about: tuple[Path, str]
) -> list[dict[str, object]]:
    """Rows of samples, engine by engine in every round."""
    folder = weights.folder(SHAPES[args.shape], args.work)
    ours = open_specdec(folder, dtype, setup(args, context))
    llama = {}
    if not args.alone:
        from llamabatches import LlamaBatches  # needs llama.cpp

        file = gguf_file(folder, dtype, args.work)
        llama = {batch: LlamaBatches(file, args.threads, context - 1, batch) for batch in BATCHES}
    machine.record(*about, dtype, [ours, *list(llama.values())[:1]])
    found = []

    def keep(engine: str, batch: int, rows: int, shared: int, sample: Sample) -> None:
        values = (args.shape, dtype, context, engine, batch, rows, shared)
        values += (round(sample.micros, 1), round(sample.queue_share, 4))
        found.append(dict(zip(COLUMNS, values, strict=True)))

    for number in range(args.rounds + 1):
        for batch in BATCHES:
            asked = [(batch, 1, 0, f"pass 1 {batch}")]
            if batch > 1:
                asked.append((1, batch, 0, f"pass {batch} 1"))
                asked.append((batch, 1, context - 1, f"pass 1 {batch} shared"))
            if rows := ROWS.get(batch):
                asked.append((batch, rows, 0, f"pass {rows} {batch}"))
                asked.append((1, batch * rows, 0, f"pass {batch * rows} 1"))
            for sequences, rows, shared, request in asked:
                time.sleep(PAUSE)
                sample = ours.pass_of(request)
                # The first round warms up.
                if number:
                    keep("specdec", sequences, rows, shared, sample)
            if not llama:
                continue
            time.sleep(PAUSE)
            sample = llama[batch].pass_()
            llama[batch].rest()
            if number:
                keep("llama.cpp", batch, 1, 0, sample)
    ours.close()
    return found


def summary(file: Path) -> None:
    """Prints medians of undisturbed samples as throughputs, and next to rows of one sequence."""
    # Each has a sample per round, none where it was disturbed.
    times: dict[tuple[str, ...], list[float | None]] = {}
    with file.open(newline="") as rows:
        for row in csv.DictReader(rows):
            own = times.setdefault(tuple(row[name] for name in COLUMNS[:7]), [])
            own.append(float(row["micros"]) if float(row["queue_share"]) <= MOST_WAIT else None)
    kept = {key: [time for time in own if time is not None] for key, own in times.items()}
    medians = {key: statistics.median(own) for key, own in kept.items() if own}
    for (shape, dtype, context, engine, batch, rows, shared), micros in medians.items():
        place = (shape, dtype, context)
        one = medians.get((*place, engine, "1", "1", "0"), float("nan"))
        ours = medians.get((*place, "specdec", batch, rows, "0"), float("nan"))
        tokens_at_once = int(batch) * int(rows)
        print(
            f"{shape} {dtype} after {context}: {engine:9} {batch:>2} x {rows:>2} shared {shared:>4} "
            f"{micros:9.0f} us, {tokens_at_once * one / micros:5.2f} times one, "
            f"{micros / ours:5.2f} of specdec's time"
        )
    for (*place, engine, batch, rows, shared), own in times.items():
        alone = times.get((*place, engine, "1", str(int(batch) * int(rows)), shared), [])
        ratios = [a / b for a, b in zip(own, alone) if a and b]
        if batch != "1" and ratios:
            print(
                f"{' '.join(place)}: {batch:>2} x {rows} takes "
                f"{statistics.median(ratios):.2f} times as long as 1 x {int(batch) * int(rows)}, "
                f"in {len(ratios)} rounds"
            )


if __name__ == "__main__":
    main()
