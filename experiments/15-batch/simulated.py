"""Compares what `specdec simulate` says of a server with the engine, under the same arrivals.

    cargo build --release
    python experiments/15-batch/simulated.py --tape 64.tape.jsonl --out FOLDER

`run.py` writes the tape. In each repeat the engine serves two parts of a simulation's requests
(`specdec replay`), one after the other. Each part is compared with a simulation whose costs are
those of the other part (`--played-costs`), and with one whose costs `specdec bench` measured at
the beginning. It needs Python 3.11 or newer.
"""

import argparse
import csv
import gzip
import statistics
import subprocess
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
PROMPTS = REPOSITORY / "experiments" / "13-determinism" / "prompts.jsonl"
DRAFT = ("--draft-dtype", "q8_0")
# The policies of the simulation, with the options of `specdec replay` that do the same.
METHODS = {
    "plain": ("--plain",),
    "fixed:1": ("-k", 1, *DRAFT),
    "fixed:4": ("-k", 4, *DRAFT),
}
BATCHES, CONTEXTS = "1,2,4,8,16", "32,96"
SLOTS = 16
LOADS = {"1 clients": ("--clients", 1), "8 clients": ("--clients", 8), "16 per s": ("--rate", 16)}
REQUESTS = 64
PARTS = (0, 1)
# What is measured, and simulations by where their costs come from.
KINDS = ("measured", "played", "bench")
TIMES = ("arrived_ms", "finished_ms")
COLUMNS = (
    "repeat", "part", "method", "load", "request", "tokens",
    *(f"{kind}_{time}" for kind in KINDS for time in TIMES),
)  # fmt: skip
Row = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--specdec", type=Path, default=REPOSITORY / "target/release/specdec")
    parser.add_argument("--tape", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=8)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    program = Program(args.specdec, args.tape, args.out)
    program.bench()
    rows: list[Row] = []
    for repeat in range(args.repeats):
        for method in METHODS:
            for load in LOADS:
                rows += repeated(program, repeat, method, load)
        write(args.out / "replayed.csv.gz", rows)
        print(f"{repeat + 1} of {args.repeats}", flush=True)
    write(args.out / "simulated.csv", list(compared(rows)))


class Program:
    """The program, its tape, and where its files go."""

    def __init__(self, specdec: Path, tape: Path, out: Path) -> None:
        self._specdec = specdec
        self._tape = tape
        self._out = out
        self.costs = out / "costs.csv"

    def bench(self) -> None:
        """Measures what passes cost."""
        self._run(
            "bench", "--costs", self.costs, "--batch", BATCHES, "--contexts", CONTEXTS,
            "--seconds", 1, *DRAFT,
        )  # fmt: skip

    def simulated(self, method: str, load: str, seed: int, costs: Path) -> list[dict[str, str]]:
        """The requests of a simulation."""
        requests = self._out / "requests.csv"
        self._run(
            "simulate", self._tape, "--costs", costs, "--drafter", "model", *LOADS[load],
            "--policy", method, "--requests", REQUESTS, "--repeats", 1, "--seed", seed,
            "--max-batch", SLOTS, "--step-rows", "whole", "--requests-csv", requests,
        )  # fmt: skip
        return [row for row in read(requests) if row["policy"] == method.split(":")[0]]

    def replayed(self, method: str, requests: list[dict[str, str]], costs: Path) -> list[Row]:
        """The same requests, served by the engine, which writes their costs."""
        asked, replayed = self._out / "requests.csv", self._out / "replayed.csv"
        write(asked, requests)
        self._run(
            "replay", asked, "--prompts", PROMPTS, "--temperature", 1, "--slots", SLOTS,
            *METHODS[method], "--csv", replayed, "--costs", self.costs, "--played-costs", costs,
        )  # fmt: skip
        return read(replayed)

    def played_costs(self, part: int) -> Path:
        return self._out / f"played-{part}.csv"

    def _run(self, *command: object) -> None:
        words = [str(self._specdec), *map(str, command)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def repeated(program: Program, repeat: int, method: str, load: str) -> Iterator[Row]:
    """The requests of both parts, served, and simulated with either costs."""
    seed = {part: 2 * repeat + part for part in PARTS}
    bench = {part: program.simulated(method, load, seed[part], program.costs) for part in PARTS}
    # What the machine loses or gains over time must not always hit the same part.
    order = PARTS if repeat % 2 == 0 else PARTS[::-1]
    measured = {
        part: program.replayed(method, bench[part], program.played_costs(part)) for part in order
    }
    for part in PARTS:
        other = program.played_costs(1 - part)
        played = program.simulated(method, load, seed[part], other)
        for kinds in zip(measured[part], played, bench[part], strict=True):
            own = kinds[0]
            assert len({(row["prompt"], row["tokens"]) for row in kinds}) == 1, kinds
            times = [row[time] for row in kinds for time in TIMES]
            values = (repeat, part, method, load, own["request"], own["tokens"], *times)
            yield dict(zip(COLUMNS, values, strict=True))


def compared(rows: list[Row]) -> Iterator[Row]:
    """Throughput and latencies, simulated and measured; ratios with the range over repeats."""
    for (method, load), own in by(rows, "method", "load"):
        repeats = [repeat for _, repeat in by(own, "repeat")]
        for what, measure in MEASURES.items():
            found = {kind: measure(own, kind) for kind in KINDS}
            ratios = [measure(part, "played") / measure(part, "measured") for part in repeats]
            yield {
                "method": method, "load": load, "what": what, **found,
                "ratio": found["played"] / found["measured"],
                "lowest": min(ratios), "highest": max(ratios),
                "bench_ratio": found["bench"] / found["measured"],
            }  # fmt: skip


def by(rows: Iterable[Row], *columns: str) -> Iterator[tuple[Any, list[Row]]]:
    """Groups of rows with the same values."""
    key = itemgetter(*columns)
    return ((values, list(group)) for values, group in groupby(sorted(rows, key=key), key))


def throughput(rows: list[Row], kind: str) -> float:
    """Tokens per second, over all repeats and parts."""
    begin, end = (lambda row, time=time: float(row[f"{kind}_{time}"]) for time in TIMES)
    parts = [part for _, part in by(rows, "repeat", "part")]
    span = sum(max(map(end, part)) - min(map(begin, part)) for part in parts)
    return 1000 * sum(int(row["tokens"]) for row in rows) / span


def latencies(rows: list[Row], kind: str) -> list[float]:
    begin, end = (f"{kind}_{time}" for time in TIMES)
    return [float(row[end]) - float(row[begin]) for row in rows]


def median(rows: list[Row], kind: str) -> float:
    return statistics.median(latencies(rows, kind))


def p95(rows: list[Row], kind: str) -> float:
    return statistics.quantiles(latencies(rows, kind), n=20)[-1]


MEASURES = {"tokens_per_s": throughput, "latency_ms_p50": median, "latency_ms_p95": p95}


def read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def write(file: Path, rows: list[Row]) -> None:
    open_ = gzip.open if file.suffix == ".gz" else open
    with open_(file, "wt", newline="") as text:
        writer = csv.DictWriter(text, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
