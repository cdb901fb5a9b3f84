"""How fast a model scores a sequence for a tape, compared with its prefill and its decoding.

    python experiments/09-tape/scoring.py OUT.csv [ROUNDS]

Asks `specdec bench --interactive` for single samples in turns: a prefill of 512 tokens, a text of
512 tokens that is scored, and a pass of one row, which is a step of decoding. Uses random weights
of the shape 110m. Writes a row per sample and prints the medians of the ratios of each round.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import csv
import json
import statistics
import subprocess

TOKENS = 512
DTYPES = ["f32", "bf16", "q8_0"]


class Bench:
    def __init__(self, dtype):
        command = ["target/release/specdec", "bench", "--shape", "110m", "--dtype", dtype]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command + ["--interactive"], stdin=pipe, stdout=pipe, text=True
        )
        self.about = json.loads(self.process.stdout.readline())

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def main():
    out, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9
    rows = []
    for dtype in DTYPES:
        bench = Bench(dtype)
        requests = [f"prefill {TOKENS}", f"score {TOKENS}", "pass 1"]
        for number in range(rounds + 1):
            for request in requests:
                sample = bench.ask(request)
                # The first round fills caches and starts threads.
                if number > 0:
                    tokens = 1 if request == "pass 1" else TOKENS
                    per_token = sample["micros"] / tokens
                    what = request.split()[0]
                    share = sample["queue_share"]
                    rows.append([dtype, bench.about["isa"], number, what, per_token, share])
        bench.process.stdin.write("quit\n")
        bench.process.stdin.close()
        bench.process.wait()
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["dtype", "isa", "round", "what", "us_per_token", "queue_share"])
        writer.writerows(rows)
    for dtype in DTYPES:
        times = {}
        for row in rows:
            if row[0] == dtype:
                times.setdefault(row[2], {})[row[3]] = row[4]
        prefill = statistics.median(t["prefill"] / t["score"] for t in times.values())
        decode = statistics.median(t["pass"] / t["score"] for t in times.values())
        print(f"{dtype}: scoring at {prefill:.2f} of the prefill rate, {decode:.1f} x decoding")


main()
