"""Measures what samples and beams of one prompt of 512 tokens take together and one by one.

    cargo build --release
    python experiments/15-batch/shared_prompt.py --out FOLDER

Samples: `specdec serve` gets a request for eight texts of a prompt (n = 8), and eight requests for
one text each, one after another. Its peak memory is compared with that with one text, and with eight
texts of unlike prompts. Beams: the time of a step of eight beams, and that of the passes that eight
beams would take alone, with caches of their own, and with the prompt shared. Python 3.11 or newer.
"""

import argparse
import csv
import json
import re
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from server import Server, serving

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
PROMPT, TOKENS, TEXTS = 512, 64, 8
REPEATS = 15
DTYPES = ("f32", "q8_0")
# Options of `bench` for each model whose beams are timed.
MODELS = {"embedded": [], "110m": ["--shape", "110m"]}
COLUMNS = ("what", "model", "dtype", "repeat", "way", "value")
Row = tuple[object, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--specdec", type=Path, default=REPOSITORY / "target/release/specdec")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    prompts = list(long_prompts(args.specdec))
    rows: list[Row] = []
    for dtype in DTYPES:
        rows += sampled(args.specdec, dtype, prompts[0])
        rows += remembered(args.specdec, dtype, prompts)
        for model, options in MODELS.items():
            rows += beams(args.specdec, dtype, model, options)
    with (args.out / "shared-prompt.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    show(rows)


def long_prompts(specdec: Path) -> Iterator[list[int]]:
    """The tokens of eight prompts."""
    lines = (HERE / "long.jsonl").read_text(encoding="utf-8").splitlines()[:TEXTS]
    for line in lines:
        command = [specdec, "inspect", "--json", f"--prompt={json.loads(line)['prompt']}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        tokens = json.loads(done.stdout)["prompt_ids"][:PROMPT]
        assert len(tokens) == PROMPT
        yield tokens


def options(dtype: str) -> list[str]:
    """Those of a server without drafts."""
    return ["--drafter", "none", "--dtype", dtype, "--slots", str(TEXTS)]


def ask(server: Server, prompt: list[int] | list[list[int]], seed: int, n: int = 1) -> None:
    asked = {"model": server.model, "prompt": prompt, "seed": seed, "n": n}
    more = {"max_tokens": TOKENS, "temperature": 1, "ignore_eos": True}
    body = json.dumps(asked | more).encode()
    request = urllib.request.Request(
        f"{server.url}/v1/completions", body, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        json.load(answer)


def sampled(specdec: Path, dtype: str, prompt: list[int]) -> Iterator[Row]:
    """Seconds of eight texts of a prompt, in turns."""
    with serving(specdec, options(dtype)) as server:
        ask(server, prompt, 0)
        for repeat in range(REPEATS):
            begun = time.monotonic()
            ask(server, prompt, repeat, TEXTS)
            together = time.monotonic()
            for text in range(TEXTS):
                ask(server, prompt, TEXTS * repeat + text)
            alone = time.monotonic()
            yield ("samples_s", "embedded", dtype, repeat, "together", together - begun)
            yield ("samples_s", "embedded", dtype, repeat, "one by one", alone - together)


def remembered(specdec: Path, dtype: str, prompts: list[list[int]]) -> Iterator[Row]:
    """The peak memory of a server in MiB, after one text and after eight."""
    ways = {
        "one text": lambda server: ask(server, prompts[0], 0),
        "eight texts of a prompt": lambda server: ask(server, prompts[0], 0, TEXTS),
        "eight texts of unlike prompts": lambda server: ask(server, prompts, 0),
    }
    for way, request in ways.items():
        with serving(specdec, options(dtype)) as server:
            request(server)
            status = Path(f"/proc/{server.process}/status").read_text()
            peak = int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024
            yield ("peak_mib", "embedded", dtype, 0, way, peak)


def beams(specdec: Path, dtype: str, model: str, options: list[str]) -> Iterator[Row]:
    """Microseconds of a step of eight beams and of passes, in turns."""
    ways = {
        "step of eight beams": f"beams {TEXTS} 32",
        "pass of one": "pass 1",
        "pass of eight": f"pass 1 {TEXTS}",
        "pass of eight, prompt shared": f"pass 1 {TEXTS} shared",
    }
    command = [specdec, "bench", "--interactive", "--dtype", dtype, "--context", str(PROMPT)]
    with subprocess.Popen(
        [*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as bench:
        bench.stdout.readline()
        for repeat in range(REPEATS):
            for way, request in ways.items():
                bench.stdin.write(request + "\n")
                bench.stdin.flush()
                answer = json.loads(bench.stdout.readline())
                yield ("beams_us", model, dtype, repeat, way, answer["micros"])
        bench.stdin.close()


def show(rows: list[Row]) -> None:
    """Medians, and the ratios that the README states."""
    found: dict[tuple[object, ...], list[float]] = {}
    for what, model, dtype, _, way, value in rows:
        found.setdefault((what, model, dtype, way), []).append(float(value))
    for key, values in found.items():
        print(*key, f"{statistics.median(values):.4g}", f"[{min(values):.4g}, {max(values):.4g}]")


if __name__ == "__main__":
    main()
