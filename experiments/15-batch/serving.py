"""Measures how many tokens per second `specdec serve` gives to 1, 8 and 32 clients at a time.

    cargo build --release
    python experiments/15-batch/serving.py > serving.csv
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import csv
import json
import statistics
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from server import Server, serving

REPOSITORY = Path(__file__).resolve().parents[2]
PROMPTS = REPOSITORY / "experiments" / "13-determinism" / "prompts.jsonl"
STREAMS = (1, 8, 32)
REQUESTS, TOKENS, REPEATS = 64, 64, 3
METHODS = {
    "plain": ["--drafter", "none"],
    "model K=4": ["--num-speculative-tokens", "4", "--draft-dtype", "q8_0"],
}


def main() -> None:
    texts = PROMPTS.read_text(encoding="utf-8").splitlines()[:REQUESTS]
    prompts = [json.loads(line)["prompt"] for line in texts]
    program = REPOSITORY / "target" / "release" / "specdec"
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["method", "repeat", "streams", "tokens_per_s", "median_latency_s"])
    for method, options in METHODS.items():
        with serving(program, ["--slots", str(max(STREAMS)), *options]) as server:
            for repeat in range(REPEATS):
                for streams in STREAMS:
                    rows.writerow([method, repeat, streams, *measured(server, prompts, streams)])


def measured(server: Server, prompts: list[str], streams: int) -> tuple[float, float]:
    """Tokens per second of all requests, and the median time of one."""
    def ask(number: int) -> tuple[int, float]:
        asked = {"model": server.model, "prompt": prompts[number], "max_tokens": TOKENS, "seed": number}
        body = json.dumps({**asked, "temperature": 1, "ignore_eos": True}).encode()
        kind = {"content-type": "application/json"}
        request = urllib.request.Request(f"{server.url}/v1/completions", body, kind)
        begun = time.monotonic()
        with urllib.request.urlopen(request) as answer:
            tokens = json.load(answer)["usage"]["completion_tokens"]
        return tokens, time.monotonic() - begun

    begun = time.monotonic()
    with ThreadPoolExecutor(streams) as clients:
        answers = list(clients.map(ask, range(len(prompts))))
    taken = time.monotonic() - begun
    return sum(n for n, _ in answers) / taken, statistics.median(t for _, t in answers)


if __name__ == "__main__":
    main()
