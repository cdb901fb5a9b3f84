"""Compares what `specdec simulate` says of a server with the engine, under the same arrivals.

    cargo build --release
    python experiments/15-batch/simulated.py --tape 64.tape.jsonl --out FOLDER

`run.py` writes the tape. In each repeat the engine serves the requests of a simulation
(`specdec replay`) between two measurements of what passes cost; it is compared with the mean of
the simulations with either. It needs Python 3.11 or newer.
"""

import argparse
import csv
import gzip
import statistics
import subprocess
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

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
LOADS = ("--clients", "1,8", "--rate", 16)
REQUESTS = 128
WHEN = ("before", "after")
TIMES = ("arrived_ms", "finished_ms")
COLUMNS = (
    "repeat", "method", "load", "request", "tokens", *TIMES,
    *(f"{when}_{time}" for when in WHEN for time in TIMES),
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
    rows: list[Row] = []
    for repeat in range(args.repeats):
        rows += repeated(Program(args.specdec, args.tape, args.out), repeat)
        print(f"{repeat + 1} of {args.repeats}", flush=True)
    write(args.out / "replayed.csv.gz", rows)
    write(args.out / "simulated.csv", list(compared(rows)))


class Program:
    """The program, its tape, and where its files go."""

    def __init__(self, specdec: Path, tape: Path, out: Path) -> None:
        self._specdec = specdec
        self._tape = tape
        self._out = out

    def simulated(self, repeat: int, when: str) -> dict[tuple[str, str], list[dict[str, str]]]:
        """The requests by method and load, of a simulation with costs that are measured now."""
        costs = self._out / f"costs-{repeat}-{when}.csv"
        requests = self._out / "requests.csv"
        self._run(
            "bench", "--costs", costs, "--batch", BATCHES, "--contexts", CONTEXTS,
            "--seconds", 1, *DRAFT,
        )  # fmt: skip
        self._run(
            "simulate", self._tape, "--costs", costs, "--drafter", "model", *LOADS,
            "--policy", ",".join(METHODS), "--requests", REQUESTS, "--repeats", 1,
            "--seed", repeat, "--max-batch", SLOTS, "--step-rows", "whole",
            "--requests-csv", requests,
        )  # fmt: skip
        return {key: list(group) for key, group in groupby(read(requests), key=of)}

    def replayed(self, method: str, requests: list[dict[str, str]]) -> list[dict[str, str]]:
        """The same requests, served by the engine."""
        asked, replayed = self._out / "requests.csv", self._out / "replayed.csv"
        write(asked, requests)
        self._run(
            "replay", asked, "--prompts", PROMPTS, "--temperature", 1, "--slots", SLOTS,
            *METHODS[method], "--csv", replayed,
        )  # fmt: skip
        return read(replayed)

    def _run(self, *command: object) -> None:
        words = [str(self._specdec), *map(str, command)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def of(row: dict[str, str]) -> tuple[str, str]:
    """The method and the load of a request."""
    policy = row["policy"]
    method = policy if policy == "plain" else f"{policy}:{row['num_speculative_tokens']}"
    return method, f"{row['rate']} per s" if row["rate"] else f"{row['clients']} clients"


def repeated(program: Program, repeat: int) -> Iterator[Row]:
    """The requests of a repeat, simulated with costs of before and after, and served."""
    before = program.simulated(repeat, WHEN[0])
    served = {key: program.replayed(key[0], requests) for key, requests in before.items()}
    after = program.simulated(repeat, WHEN[1])
    for key, requests in served.items():
        for own, *simulations in zip(requests, before[key], after[key], strict=True):
            times = [own[time] for time in TIMES]
            times += [simulation[time] for simulation in simulations for time in TIMES]
            values = (repeat, *key, own["request"], own["tokens"], *times)
            yield dict(zip(COLUMNS, values, strict=True))


def compared(rows: list[Row]) -> Iterator[Row]:
    """Throughput and latencies, simulated and measured; ratios with the range over repeats."""
    key = lambda row: (row["method"], row["load"])  # noqa: E731
    for (method, name), group in groupby(sorted(rows, key=key), key):
        repeats = [list(own) for _, own in groupby(group, lambda row: row["repeat"])]
        for what, measure in MEASURES.items():
            expected = [
                statistics.mean(measure(own, f"{when}_") for when in WHEN) for own in repeats
            ]
            found = [measure(own, "") for own in repeats]
            ratios = sorted(a / b for a, b in zip(expected, found, strict=True))
            yield {
                "method": method, "load": name, "what": what,
                "simulated": statistics.median(expected), "measured": statistics.median(found),
                "ratio": statistics.median(ratios), "lowest": ratios[0], "highest": ratios[-1],
            }  # fmt: skip


def throughput(rows: list[Row], kind: str) -> float:
    span = max(float(row[f"{kind}finished_ms"]) for row in rows) - min(
        float(row[f"{kind}arrived_ms"]) for row in rows
    )
    return 1000 * sum(int(row["tokens"]) for row in rows) / span


def latencies(rows: list[Row], kind: str) -> list[float]:
    return [float(row[f"{kind}finished_ms"]) - float(row[f"{kind}arrived_ms"]) for row in rows]


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
