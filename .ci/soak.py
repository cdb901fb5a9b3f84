"""Loads a server for some seconds; its memory must not grow after the first fifth.

`python soak.py URL PID SECONDS`
"""

import json
import random
import sys
import threading
import time
import urllib.request
from pathlib import Path

CLIENTS = 24
# What fragments of memory and the meters of new places may take.
MAY_GROW = 1.05


def resident(pid: str) -> float:
    """Resident memory in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def load(url: str, seed: int, end: float, done: list[int]) -> None:
    draws = random.Random(seed)
    while time.monotonic() < end:
        body = {
            "prompt": "fn main() {" * draws.randint(1, 8),
            "max_tokens": draws.randint(1, 200),
            "temperature": draws.choice([0, 0.7, 1]),
            "stream": draws.random() < 0.5,
            "logprobs": draws.choice([None, 5]),
        }
        head = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), head)
        with urllib.request.urlopen(asked, timeout=120) as answer:
            # Some clients leave in the middle.
            answer.read(64 if draws.random() < 0.1 else -1)
        done[seed] += 1


def main() -> None:
    url, pid, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    begin = time.monotonic()
    done = [0] * CLIENTS
    work = [(url, seed, begin + seconds, done) for seed in range(CLIENTS)]
    threads = [threading.Thread(target=load, args=args) for args in work]
    for thread in threads:
        thread.start()
    found = []
    while any(thread.is_alive() for thread in threads):
        time.sleep(min(5, seconds / 50))
        found.append(resident(pid))
    early, late = (max(found[len(found) * a // 5 : len(found) * b // 5]) for a, b in ((1, 2), (4, 5)))
    print(f"{sum(done)} texts in {seconds:.0f} s; at most {early:.1f} MiB early, {late:.1f} MiB late")
    assert min(done) > 0, "a client got nothing"
    assert late <= MAY_GROW * early, "memory grows"


if __name__ == "__main__":
    main()
