"""Compares what `specdec simulate` said of a server with the engine, under the same arrivals.

    python experiments/15-batch/simulated.py replayed.csv.gz > simulated.csv

replayed.csv.gz has a row for each request: `measured` ones came to the engine, `played` and
`bench` ones are simulated with either costs (README.md). At commit f997d67, until which the
command `specdec replay` existed, this file also makes these rows. It needs Python 3.11 or
newer.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import csv
import gzip
import statistics
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

Row = dict[str, Any]


def main() -> None:
    with gzip.open(sys.argv[1], "rt", newline="") as text:
        rows = list(compared(list(csv.DictReader(text))))
    writer = csv.DictWriter(sys.stdout, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


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


if __name__ == "__main__":
    main()
