"""Compares what `specdec simulate` says of a server with the engine, under the same arrivals.

    cargo build --release
    python experiments/15-batch/simulated.py --tape 64.tape.jsonl --out FOLDER

`run.py` writes the tape. In each repeat the engine serves the same two parts of a simulation's
requests (`specdec replay`), one after the other. What a machine loses for seconds at a time is
in few of the repeats, so that the median over them counts, for each request and for what passes
cost. Each part is compared with a simulation whose costs are those of the other part
(`--played-costs`), and with one whose costs `specdec bench` measured at the beginning. It needs
Python 3.11 or newer.
"""

import argparse
import csv
import gzip
import statistics
import subprocess
from collections.abc import Iterable, Iterator
from itertools import groupby, product
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
SLOTS = 16
# Every number of requests that may share a round: passes do not grow evenly in between.
BATCHES, CONTEXTS = ",".join(str(batch) for batch in range(1, SLOTS + 1)), "32,96"
LOADS = {
    "1 client": ("--clients", 1),
    "8 clients": ("--clients", 8),
    "8 per s": ("--rate", 8),
    "16 per s": ("--rate", 16),
}
REQUESTS = 64
PARTS = (0, 1)
COLUMNS = (
    "kind", "repeat", "part", "method", "load", "request", "tokens", "arrived_ms", "finished_ms",
)  # fmt: skip
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--specdec", type=Path, default=REPOSITORY / "target/release/specdec")
    parser.add_argument("--tape", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    program = Program(args.specdec, args.tape, args.out)
    program.bench()
    cases = [Case(program, *names) for names in product(METHODS, LOADS)]
    for repeat in range(args.repeats):
        for case in cases:
            case.measure(repeat)
        print(f"{repeat + 1} of {args.repeats}", flush=True)
    rows = [row for case in cases for row in case.rows()]
    write(args.out / "replayed.csv.gz", rows)
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

    def simulated(self, method: str, load: str, seed: int, costs: Path) -> list[Row]:
        """The requests of a simulation."""
        requests = self._out / "requests.csv"
        self._run(
            "simulate", self._tape, "--costs", costs, "--drafter", "model", *LOADS[load],
            "--policy", method, "--requests", REQUESTS, "--repeats", 1, "--seed", seed,
            "--max-batch", SLOTS, "--step-rows", "whole", "--requests-csv", requests,
        )  # fmt: skip
        return [row for row in read(requests) if row["policy"] == method.split(":")[0]]

    def replayed(self, method: str, requests: list[Row]) -> tuple[list[Row], list[Row]]:
        """The same requests, served by the engine, and what passes cost meanwhile."""
        asked, replayed = self._out / "requests.csv", self._out / "replayed.csv"
        costs = self._out / "played.csv"
        write(asked, requests)
        self._run(
            "replay", asked, "--prompts", PROMPTS, "--temperature", 1, "--slots", SLOTS,
            *METHODS[method], "--csv", replayed, "--costs", self.costs, "--played-costs", costs,
        )  # fmt: skip
        return read(replayed), read(costs)

    def median(self, costs: list[list[Row]]) -> Path:
        """A file with the median of each cost."""
        file = self._out / "median.csv"
        write(file, [median_row(rows) for rows in zip(*costs, strict=True)])
        return file

    def _run(self, *command: object) -> None:
        words = [str(self._specdec), *map(str, command)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def median_row(rows: tuple[Row, ...]) -> Row:
    """A line of files of costs: the same pass in each, with the median of its time."""
    return {**rows[0], "ms": statistics.median(float(row["ms"]) for row in rows)}


class Case:
    """A method under a load: both parts of the requests, simulated and as often as measured."""

    def __init__(self, program: Program, method: str, load: str) -> None:
        self._program, self._method, self._load = program, method, load
        self._bench = {part: self._simulated(part, program.costs) for part in PARTS}
        self._measured: list[dict[int, list[Row]]] = []
        self._costs: list[dict[int, list[Row]]] = []

    def measure(self, repeat: int) -> None:
        # What the machine loses or gains over time must not always hit the same part.
        order = PARTS if repeat % 2 == 0 else PARTS[::-1]
        served = {part: self._program.replayed(self._method, self._bench[part]) for part in order}
        self._measured.append({part: requests for part, (requests, _) in served.items()})
        self._costs.append({part: costs for part, (_, costs) in served.items()})

    def rows(self) -> Iterator[Row]:
        """The requests as they were measured, and simulated with either costs."""
        for part in PARTS:
            others = [costs[1 - part] for costs in self._costs]
            played = self._simulated(part, self._program.median(others))
            measured = [("measured", repeat[part]) for repeat in self._measured]
            kinds = [*measured, ("played", played), ("bench", self._bench[part])]
            for number, (kind, requests) in enumerate(kinds):
                for row, asked in zip(requests, self._bench[part], strict=True):
                    assert (row["prompt"], row["tokens"]) == (asked["prompt"], asked["tokens"])
                    own = [row[column] for column in COLUMNS[5:]]
                    repeat = number if kind == "measured" else ""
                    values = (kind, repeat, part, self._method, self._load, *own)
                    yield dict(zip(COLUMNS, values, strict=True))

    def _simulated(self, part: int, costs: Path) -> list[Row]:
        return self._program.simulated(self._method, self._load, part, costs)


def compared(rows: list[Row]) -> Iterator[Row]:
    """Throughput and latencies, simulated and measured; ratios with the range over repeats."""
    for (method, load), own in by(rows, "method", "load"):
        kinds = {kind: part for (kind,), part in by(own, "kind")}
        repeats = [repeat for _, repeat in by(kinds["measured"], "repeat")]
        for what, measure in MEASURES.items():
            found = {kind: measure(part) for kind, part in kinds.items()}
            ratios = [found["played"] / measure(repeat) for repeat in repeats]
            yield {
                "method": method, "load": load, "what": what, **found,
                "ratio": found["played"] / found["measured"],
                "lowest": min(ratios), "highest": max(ratios),
                "bench_ratio": found["bench"] / found["measured"],
            }  # fmt: skip


def by(rows: Iterable[Row], *columns: str) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    """Groups of rows with the same values."""

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row[column] for column in columns)

    return ((values, list(group)) for values, group in groupby(sorted(rows, key=key), key))


def throughput(rows: list[Row]) -> float:
    """Tokens per second of both parts, each of which takes the median of its repeats."""
    spans = 0.0
    for _, part in by(rows, "part"):
        spans += statistics.median(span(repeat) for _, repeat in by(part, "repeat"))
    tokens = {(row["part"], row["request"]): int(row["tokens"]) for row in rows}
    return 1000 * sum(tokens.values()) / spans


def span(rows: list[Row]) -> float:
    begin = min(float(row["arrived_ms"]) for row in rows)
    return max(float(row["finished_ms"]) for row in rows) - begin


def latencies(rows: list[Row]) -> list[float]:
    """Of each request, the median of its repeats."""
    return [
        statistics.median(float(row["finished_ms"]) - float(row["arrived_ms"]) for row in request)
        for _, request in by(rows, "part", "request")
    ]


def median(rows: list[Row]) -> float:
    return statistics.median(latencies(rows))


def p95(rows: list[Row]) -> float:
    return statistics.quantiles(latencies(rows), n=20)[-1]


MEASURES = {"tokens_per_s": throughput, "latency_ms_p50": median, "latency_ms_p95": p95}


def read(file: Path) -> list[Row]:
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
