"""Measures the speed of passes by number of threads, with and without other work.

    cargo build --release
    python experiments/92-busy-machine/run.py

It needs only Linux and Python 3.11 or newer.
"""

import argparse
import csv
import datetime
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "target" / "release" / "specdec"

# The measured models: for each name, the options that select it and the requests per sample.
MODELS = {
    "embedded f32": ([], 150),
    "embedded q8_0": (["--dtype", "q8_0"], 300),
    "110m q8_0": (["--shape", "110m", "--dtype", "q8_0"], 60),
}


class Engine:
    """A process that runs passes of one row on request."""

    def __init__(self, options: list[str], threads: int) -> None:
        command = [PROGRAM, "bench", "--interactive", "--threads", str(threads), *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ready = json.loads(self.process.stdout.readline())
        self.sample(3)

    def sample(self, requests: int) -> float:
        """Seconds that `requests` requests take, back to back."""
        start = time.perf_counter()
        self.process.stdin.write("pass 1\n" * requests)
        self.process.stdin.flush()
        for _ in range(requests):
            self.process.stdout.readline()
        return time.perf_counter() - start

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Burners:
    """Processes that keep one core each busy while they are allowed to run."""

    def __init__(self, number: int) -> None:
        burn = [sys.executable, "-c", "while True: pass"]
        self.processes = [subprocess.Popen(burn) for _ in range(number)]
        self.let(False)

    def let(self, burn: bool) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGCONT if burn else signal.SIGSTOP)
        time.sleep(0.2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@dataclass
class Row:
    """A sample."""

    model: str
    busy: int  # number of other processes that keep a core busy
    threads: int
    round: int
    requests: int
    seconds: float


def measure(
    model: str, rounds: int, cores: int, burners: Burners, facts: dict[str, object]
) -> list[Row]:
    """Takes samples with all numbers of threads in turns, with and without other work.

    Records the instruction set of the engine in `facts`.
    """
    options, requests = MODELS[model]
    engines = {threads: Engine(options, threads) for threads in range(1, cores + 1)}
    facts["isa"] = engines[1].ready["isa"]
    rows = []
    for turn in range(rounds):
        for busy in (0, cores):
            burners.let(busy > 0)
            for threads, engine in engines.items():
                seconds = engine.sample(requests)
                rows.append(Row(model, busy, threads, turn, requests, round(seconds, 6)))
        burners.let(False)
        print(f"{model}: round {turn + 1} of {rounds}", flush=True)
    for engine in engines.values():
        engine.close()
    return rows


def summary(rows: list[Row]) -> list[dict[str, object]]:
    """The median time and the relative speed of each model, load and number of threads.

    The speed of each round is relative to the best median with at most as many threads.
    """
    seconds = {(r.model, r.busy, r.threads, r.round): r.seconds for r in rows}
    found = []
    for model, busy, threads in dict.fromkeys((r.model, r.busy, r.threads) for r in rows):
        turns = sorted({r.round for r in rows})
        own = [seconds[model, busy, threads, turn] for turn in turns]
        best = min(
            statistics.median(seconds[model, busy, n, turn] for turn in turns)
            for n in range(1, threads + 1)
        )
        ratios = [best / time for time in own]
        low, _, high = statistics.quantiles(ratios, n=4)
        found.append(
            {
                "model": model,
                "busy": busy,
                "threads": threads,
                "rounds": len(turns),
                "median_seconds": round(statistics.median(own), 4),
                "over_best": round(statistics.median(ratios), 3),
                "over_best_q1": round(low, 3),
                "over_best_q3": round(high, 3),
            }
        )
    return found


def machine(cores: int) -> dict[str, object]:
    """The facts about this machine that `machine.json` records."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = next((s.split(":")[1].strip() for s in cpuinfo.splitlines() if "model name" in s), "")
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True)
    return {
        "cpu": name or platform.processor(),
        "cores": cores,
        "kernel": platform.release(),
        "specdec": version.stdout.strip(),
        "load_average_before": os.getloadavg()[0],
    }


def write(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, help="[default: results/92-busy-machine/<date>]")
    args = parser.parse_args()
    today = datetime.datetime.now(datetime.UTC).date()
    out = args.out or REPOSITORY / "results" / "92-busy-machine" / str(today)
    cores = len(os.sched_getaffinity(0))
    facts = machine(cores)
    rows: list[Row] = []
    with Burners(cores) as burners:
        for model in MODELS:
            rows += measure(model, args.rounds, cores, burners, facts)
    out.mkdir(parents=True, exist_ok=True)
    (out / "machine.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    write(out / "samples.csv", [asdict(row) for row in rows])
    table = summary(rows)
    write(out / "summary.csv", table)
    for line in table:
        print(line)


if __name__ == "__main__":
    main()
