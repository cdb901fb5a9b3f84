"""Compares what `specdec simulate` says of a server with `specdec serve`, under the same arrivals.

    cargo build --release
    python experiments/15-batch/simulated.py --tape 64.tape.jsonl --out FOLDER

`run.py` writes the tape. A repeat measures what passes cost, simulates requests with these costs,
and sends the same requests to servers, in the same order and at the same times. It needs Python
3.11 or newer.
"""

import argparse
import csv
import gzip
import http.client
import json
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

from server import Server, serving

REPOSITORY = Path(__file__).resolve().parents[2]
PROMPTS = REPOSITORY / "experiments" / "13-determinism" / "prompts.jsonl"
DRAFT = ["--draft-dtype", "q8_0"]
# The policies of the simulation, with the options of the server that does the same.
METHODS = {
    "plain": ["--drafter", "none"],
    "fixed:1": ["--num-speculative-tokens", "1", *DRAFT],
    "fixed:4": ["--num-speculative-tokens", "4", *DRAFT],
}
BATCHES, CONTEXTS = "1,2,4,8,16", "32,96"
SLOTS = 16
LOADS = ["--clients", "1,8", "--rate", "16"]
REQUESTS = 128
COLUMNS = (
    "repeat", "method", "load", "request", "tokens",
    "simulated_arrived_ms", "simulated_finished_ms", "arrived_ms", "finished_ms",
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
    prompts = dict(read_prompts())
    rows: list[Row] = []
    with ExitStack() as stack:
        servers = {
            method: stack.enter_context(serving(args.specdec, ["--slots", str(SLOTS), *options]))
            for method, options in METHODS.items()
        }
        for repeat in range(args.repeats):
            requests = simulated(args.specdec, args.tape, args.out, repeat)
            key = lambda row: (row["policy"], row["num_speculative_tokens"], load(row))  # noqa: E731
            for (policy, k, name), group in groupby(requests, key):
                method = policy if policy == "plain" else f"{policy}:{k}"
                asked = list(group)
                times = sent(servers[method], asked, prompts)
                for row, (arrived, finished) in zip(asked, times, strict=True):
                    values = (
                        repeat, method, name, row["request"], row["tokens"],
                        row["arrived_ms"], row["finished_ms"], arrived, finished,
                    )  # fmt: skip
                    rows.append(dict(zip(COLUMNS, values, strict=True)))
            print(f"{repeat + 1} of {args.repeats}", flush=True)
    write(args.out / "served.csv.gz", rows)
    write(args.out / "simulated.csv", list(compared(rows)))


def read_prompts() -> Iterator[tuple[str, str]]:
    for line in PROMPTS.read_text(encoding="utf-8").splitlines():
        prompt = json.loads(line)
        yield prompt["id"], prompt["prompt"]


def simulated(specdec: Path, tape: Path, out: Path, repeat: int) -> list[dict[str, str]]:
    """The requests of a simulation with costs that are measured now."""
    costs, requests = out / f"costs-{repeat}.csv", out / "requests.csv"
    run(
        specdec, "bench", "--costs", costs, "--batch", BATCHES, "--contexts", CONTEXTS,
        "--seconds", "1", *DRAFT,
    )  # fmt: skip
    run(
        specdec, "simulate", tape, "--costs", costs, "--drafter", "model", *LOADS,
        "--policy", ",".join(METHODS), "--requests", str(REQUESTS), "--repeats", "1",
        "--seed", str(repeat), "--max-batch", str(SLOTS), "--requests-csv", requests,
    )  # fmt: skip
    with requests.open(newline="") as file:
        return list(csv.DictReader(file))


def run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def load(row: dict[str, str]) -> str:
    return f"{row['rate']} per s" if row["rate"] else f"{row['clients']} clients"


def sent(
    server: Server, requests: list[dict[str, str]], prompts: dict[str, str]
) -> list[tuple[float, float]]:
    """Sends requests as they came in the simulation: when each came and was done, in ms."""
    address = server.url.removeprefix("http://")
    local = threading.local()
    bodies = [
        json.dumps({
            "model": server.model, "prompt": prompts[row["prompt"]], "max_tokens": int(row["tokens"]),
            "seed": int(row["request"]), "temperature": 1, "ignore_eos": True,
        })
        for row in requests
    ]  # fmt: skip
    begun = time.monotonic()

    def now() -> float:
        return 1000 * (time.monotonic() - begun)

    def ask(number: int) -> tuple[float, float]:
        row = requests[number]
        if row["rate"]:
            time.sleep(max(0.0, (float(row["arrived_ms"]) - now()) / 1000))
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection(address)
        arrived = now()
        kind = {"content-type": "application/json"}
        local.connection.request("POST", "/v1/completions", bodies[number], kind)
        answer = json.load(local.connection.getresponse())
        assert answer["usage"]["completion_tokens"] == int(row["tokens"])
        return arrived, now()

    clients = int(requests[0]["clients"] or 4 * SLOTS)
    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(ask, range(len(requests))))


def compared(rows: list[Row]) -> Iterator[Row]:
    """Throughput and latencies, simulated and measured; ratios with the range over repeats."""
    key = lambda row: (row["method"], row["load"])  # noqa: E731
    for (method, name), group in groupby(sorted(rows, key=key), key):
        repeats = [list(own) for _, own in groupby(group, lambda row: row["repeat"])]
        for what, of in MEASURES.items():
            expected = [of(own, "simulated_") for own in repeats]
            found = [of(own, "") for own in repeats]
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


def write(file: Path, rows: list[Row]) -> None:
    open_ = gzip.open if file.suffix == ".gz" else open
    with open_(file, "wt", newline="") as text:
        writer = csv.DictWriter(text, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
