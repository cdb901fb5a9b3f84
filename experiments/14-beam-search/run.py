"""Measures what beam search costs, and what drafts save of it.

    cargo build --release
    python experiments/14-beam-search/run.py

It needs only Python 3.11 or newer.
"""

import argparse
import csv
import datetime
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
PROGRAM = REPOSITORY / "target" / "release" / "specdec"
# What is timed, with the options that select it.
MODELS = {
    "110m f32": ["--shape", "110m"],
    "110m bf16": ["--shape", "110m", "--dtype", "bf16"],
    "110m q8_0": ["--shape", "110m", "--dtype", "q8_0"],
    "embedded f32": [],
}
WIDTHS = (2, 4, 8)
# Steps of a timed search.
STEPS = 16
# A sample is dropped if other work took more than this share of its time.
DISTURBED = 0.05
# The width of the searches with drafts, and how they draft.
WIDTH = 4
DRAFTERS = {
    "none": ["--plain"],
    "model, K = 2": ["-k", "2"],
    "model, K = 4": ["-k", "4"],
    "model, K = 8": ["-k", "8"],
    "model_tree 2,2,1": ["--drafter", "model_tree", "--param", "tree=2,2,1"],
    "tree_confidence": ["--drafter", "tree_confidence"],
    "prompt_lookup, K = 4": ["--drafter", "prompt_lookup", "-k", "4"],
    "suffix_automaton, K = 4": ["--drafter", "suffix_automaton", "-k", "4"],
}
SETS = ("code", "docs", "edits")


class Engine:
    """A process that takes one sample per request."""

    def __init__(self, options: list[str]) -> None:
        command = [PROGRAM, "bench", "--interactive", *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
        )
        self.ready = json.loads(self.process.stdout.readline())

    def ask(self, request: str) -> dict[str, Any]:
        """Return the answer to a request."""
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait()


def steps(rounds: int) -> Iterator[tuple[str, int, int, float, float]]:
    """Time passes of one row and steps of searches in turns."""
    for model, options in MODELS.items():
        with Engine(options) as engine:
            requests = {0: "pass 1", **{width: f"beams {width} {STEPS}" for width in WIDTHS}}
            for number in range(-1, rounds):
                for width, request in requests.items():
                    answer = engine.ask(request)
                    # The first round warms up.
                    if number >= 0:
                        yield model, number, width, answer["micros"], answer["queue_share"]
        print(f"{model}: timed", file=sys.stderr)


def ratios(rows: list[tuple[str, int, int, float, float]]) -> Iterator[tuple[Any, ...]]:
    """Return, for each model and width, the time of a step in passes of the same round."""
    kept = {row[:3]: row[3] for row in rows if row[4] <= DISTURBED}
    for model in MODELS:
        for width in WIDTHS:
            rounds = [n for m, n, w in kept if (m, w) == (model, width) and (m, n, 0) in kept]
            found = [kept[model, n, width] / kept[model, n, 0] for n in rounds]
            if len(found) < 4:
                yield model, width, len(found), "", "", "", ""
                continue
            low, middle, high = statistics.quantiles(found, n=4)
            us = statistics.median(kept[model, n, 0] for n in rounds)
            yield model, width, len(found), f"{us:.1f}", f"{middle:.3f}", f"{low:.3f}", f"{high:.3f}"


def searches(tokens: int, most: int) -> Iterator[dict[str, Any]]:
    """Search after every prompt with every drafter, which must find the same texts."""
    for name in SETS:
        file = REPOSITORY / "configs" / "prompts" / f"{name}.jsonl"
        prompts = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
        for prompt in prompts[:most]:
            texts = None
            for drafter, options in DRAFTERS.items():
                command = [PROGRAM, "generate", f"--prompt={prompt['prompt']}", "--json"]
                command += ["--num-beams", str(WIDTH), "-n", str(tokens), *options]
                out = subprocess.run(command, check=True, capture_output=True, cwd=REPOSITORY)
                found = json.loads(out.stdout)
                texts = texts or found["texts"]
                if found["texts"] != texts:
                    sys.exit(f"{prompt['id']}: {drafter} finds other texts")
                stats = found["stats"]
                counts = {k: stats[k] for k in ("rows", "target_forwards", "draft_forwards")}
                us = round(stats["decode_us"], 1)
                yield {"prompt": prompt["id"], "set": name, "drafter": drafter, **counts, "us": us}
        print(f"{name}: searched", file=sys.stderr)


def summary(rows: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """Return what every drafter saves on every set of prompts, and its time."""
    grouped = defaultdict(list)
    for row in rows:
        for name in (row["set"], "all"):
            grouped[name, row["drafter"]].append(row)
    for (name, drafter), found in grouped.items():
        plain = {row["prompt"]: row["us"] for row in grouped[name, "none"]}
        total = lambda key: sum(row[key] for row in found)
        saved = 1 - total("target_forwards") / total("rows")
        faster = statistics.median(plain[row["prompt"]] / row["us"] for row in found)
        drafts = total("draft_forwards") / total("target_forwards")
        yield name, drafter, len(found), f"{saved:.3f}", f"{drafts:.2f}", f"{faster:.3f}"


def write(file: Path, head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Write a CSV file."""
    with file.open("w", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([head, *rows])


def main() -> None:
    """Measure, and write rows and summaries."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12, help="samples of each pass and step")
    parser.add_argument("--tokens", type=int, default=32, help="new tokens of a text")
    parser.add_argument("--prompts", type=int, default=16, help="the first N of every set")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with Engine([]) as engine:
        isa, threads = engine.ready["isa"], engine.ready["threads"]
    info = Path("/proc/cpuinfo").read_text().splitlines()
    name = next(line.split(":")[1] for line in info if line.startswith("model name"))
    cpu = "-".join(name.replace("(R)", "").lower().split()[:2])
    day = datetime.date.today().isoformat()
    out = args.out or REPOSITORY / "results" / HERE.name / f"{day}-{cpu}-{isa}"
    out.mkdir(parents=True, exist_ok=True)
    machine = {"cpu_model": name.strip(), "isa": isa, "threads": threads}
    (out / "machine.json").write_text(json.dumps(machine, indent=1) + "\n")
    timed = list(steps(args.rounds))
    write(out / "steps.csv", ("model", "round", "beams", "us", "queue_share"), timed)
    head = ("model", "beams", "rounds", "pass_us", "step_over_pass", "q1", "q3")
    write(out / "steps-summary.csv", head, list(ratios(timed)))
    found = list(searches(args.tokens, args.prompts))
    write(out / "searches.csv", tuple(found[0]), [tuple(row.values()) for row in found])
    head = ("set", "drafter", "prompts", "passes_saved", "draft_passes_per_pass", "speedup")
    write(out / "searches-summary.csv", head, list(summary(found)))
    print(out)


if __name__ == "__main__":
    main()
