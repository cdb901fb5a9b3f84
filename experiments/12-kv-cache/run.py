"""Measures what the KV cache is worth, and what it costs to store it in fewer bytes.

    cargo build --release
    python experiments/12-kv-cache/run.py

It needs Python 3.11 or newer and numpy; with matplotlib it also draws the figures.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import csv
import datetime
import gzip
import json
import statistics
import subprocess
import tempfile
from collections import defaultdict
from typing import Any

import numpy as np
from engine import DISTURBED, Engine, gaps, settled
from figures import draw

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
PROGRAM = REPOSITORY / "target" / "release" / "specdec"
# The powers of the length in the time of a token: its pass computes rows, and attention pairs
# of rows.
POWERS = {"cached": (0, 1), "uncached": (0, 1, 2)}
FLAGS = {"cached": "true", "uncached": "false"}
# What is recorded of the machine and the build.
MACHINE = ("specdec", "git_commit", "rustc", "cpu_model", "isa", "cores", "threads")
DTYPES = ("f32", "f16", "q8_0")
# The model whose passes are timed with every type of cache.
SHAPE = ["--shape", "110m", "--dtype", "q8_0"]
CONTEXTS = (64, 1024, 2048, 4096, 8000)

Times = dict[str, dict[int, list[float]]]


def run(kind: str, tokens: int) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """Run the experiment once; return its rounds and its manifest."""
    with tempfile.TemporaryDirectory() as out:
        sets = [f"--set=kv_cache={FLAGS[kind]}", f"--set=max_tokens={tokens}"]
        command = [PROGRAM, "run", HERE, "--out", out, *sets]
        subprocess.run(command, check=True, cwd=REPOSITORY, capture_output=True)
        (rounds,) = Path(out).glob("*/*/rounds.csv")
        manifest = json.loads((rounds.parent / "manifest.json").read_text())
        with rounds.open() as file:
            return list(csv.DictReader(file)), manifest


def fit(points: dict[int, float], powers: tuple[int, ...]) -> tuple[np.ndarray, float]:
    """Return the coefficients of the powers and the share of the variance that they explain."""
    lengths = np.array(list(points), dtype=float)
    times = np.array(list(points.values()))
    terms = np.stack([lengths**power for power in powers], axis=1)
    # Relative errors: a token at the end of the context takes many times as long.
    factors, *_ = np.linalg.lstsq(terms / times[:, None], np.ones_like(times), rcond=None)
    rest = times - terms @ factors
    return factors, 1 - rest.var() / times.var()


def tokens(rounds: int, length: int) -> tuple[Times, list[tuple[Any, ...]], dict[str, Any]]:
    """Time every token of a text with and without the cache, in turns."""
    times: Times = {kind: defaultdict(list) for kind in POWERS}
    rows = []
    session: dict[str, Any] = {}
    for number in range(rounds):
        for kind in POWERS:
            found, manifest = run(kind, length)
            session = manifest["sessions"][-1]
            for row in found:
                before = int(row["context_tokens"])
                spent = sum(float(row[c]) for c in ("draft_us", "target_us", "verify_us", "other_us"))
                times[kind][before].append(spent)
                rows.append((kind, number, before, f"{spent:.1f}"))
            print(f"text {number + 1} of {rounds}, {kind}", file=sys.stderr)
    return times, rows, {key: session[key] for key in MACHINE if key in session}


def passes(rounds: int) -> list[tuple[Any, ...]]:
    """Time passes of one row at several contexts with every type of cache, in turns."""
    rows = []
    for context in CONTEXTS:
        options = {d: [*SHAPE, "--context", str(context), "--kv-cache-dtype", d] for d in DTYPES}
        engines = {dtype: Engine(PROGRAM, options[dtype]) for dtype in DTYPES}
        for number in range(-1, rounds):
            for dtype, engine in engines.items():
                answer = engine.ask("pass 1")
                # The first round warms up.
                if number >= 0:
                    row = (context, dtype, number, answer["micros"], answer["queue_share"])
                    rows.append((*row, engine.peak_kib()))
        for engine in engines.values():
            engine.close()
        print(f"context {context}: timed", file=sys.stderr)
    return rows


def summary(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the time of a pass with every type, and the quotient of f32 and it in one round."""
    kept = {row[:3]: row[3] for row in rows if row[4] <= DISTURBED}
    peak = {row[:2]: row[5] for row in rows}
    found = []
    for context in CONTEXTS:
        for dtype in DTYPES:
            rounds = [n for c, d, n in kept if (c, d) == (context, dtype)]
            pairs = [n for n in rounds if (context, "f32", n) in kept]
            faster = [kept[context, "f32", n] / kept[context, dtype, n] for n in pairs]
            if len(faster) < 4:
                sys.exit(f"context {context}, {dtype}: other work disturbed nearly all samples")
            low, middle, high = statistics.quantiles(faster, n=4)
            us = statistics.median(kept[context, dtype, n] for n in rounds)
            grown = (peak[context, dtype] - peak[CONTEXTS[0], dtype]) / 1024
            numbers = (f"{us:.1f}", f"{middle:.3f}", f"{low:.3f}", f"{high:.3f}", f"{grown:.1f}")
            found.append((context, dtype, len(faster), *numbers))
    return found


def distances() -> list[tuple[Any, ...]]:
    """Return how far the logits with every type of cache are from those with f32, along a text."""
    command = [PROGRAM, "generate", "impl Iterator for", "-n", "900", "--ignore-eos", "--json"]
    out = subprocess.run(command, check=True, cwd=REPOSITORY, capture_output=True)
    text = json.loads(out.stdout)["tokens"]
    engines = {dtype: Engine(PROGRAM, ["--kv-cache-dtype", dtype]) for dtype in DTYPES}
    rows = []
    for length in range(1, len(text) + 1):
        request = "logits-after " + " ".join(map(str, text[:length]))
        logits = {d: np.array(engine.ask(request)["logits"]) for d, engine in engines.items()}
        for dtype in DTYPES[1:]:
            rows.append((dtype, length, *gaps(logits["f32"], logits[dtype])))
    for engine in engines.values():
        engine.close()
    return rows


def write(file: Path, head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Write a CSV file, packed if its name says so."""
    lines = "".join(",".join(map(str, row)) + "\n" for row in [head, *rows])
    if file.suffix == ".gz":
        with gzip.GzipFile(file, "wb", mtime=0) as packed:
            packed.write(lines.encode())
    else:
        file.write_text(lines)


def fitted(times: Times) -> list[tuple[Any, ...]]:
    """Return the fits of the median times by length, with the first and the last of them."""
    rows = []
    for kind, powers in POWERS.items():
        points = {n: statistics.median(x) for n, x in sorted(times[kind].items())}
        factors, explained = fit(points, powers)
        padded = [f"{f:.6g}" for f in factors] + [""] * (3 - len(factors))
        first, last = settled(list(points.values()))
        total = sum(points.values()) / 1e6
        rows.append((kind, *padded, f"{explained:.4f}", f"{first:.1f}", f"{last:.1f}", f"{total:.3f}"))
    return rows


def main() -> None:
    """Measure, and write rows, summaries and figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="texts of each kind, in turns")
    parser.add_argument("--samples", type=int, default=12, help="passes of each type, in turns")
    parser.add_argument("--tokens", type=int, default=900, help="new tokens of a text")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    times, rows, machine = tokens(args.rounds, args.tokens)
    cpu = "-".join(machine["cpu_model"].replace("(R)", "").lower().split()[:2])
    name = f"{datetime.date.today().isoformat()}-{cpu}-{machine['cores']}c"
    out = args.out or REPOSITORY / "results" / HERE.name / name
    (out / "figures").mkdir(parents=True, exist_ok=True)
    (out / "machine.json").write_text(json.dumps(machine, indent=1) + "\n")
    write(out / "tokens.csv.gz", ("kind", "round", "context_tokens", "us"), rows)
    head = ("kind", "us", "us_per_token", "us_per_token2", "explained", "first_us", "last_us", "total_s")
    write(out / "fits.csv", head, fitted(times))
    timed = passes(args.samples)
    head = ("context", "kv_cache_dtype", "round", "us", "queue_share", "peak_kib")
    write(out / "passes.csv", head, timed)
    head = ("context", "kv_cache_dtype", "rounds", "us", "f32_over_it", "q1", "q3", "peak_mib_more")
    write(out / "passes-summary.csv", head, summary(timed))
    apart = distances()
    write(out / "distances.csv.gz", ("kv_cache_dtype", "tokens", "rms", "kl", "same_best"), apart)
    means = []
    for dtype in DTYPES[1:]:
        own = np.array([row[2:] for row in apart if row[0] == dtype], dtype=float)
        means.append((dtype, len(own), *(f"{x:.3g}" for x in own.mean(axis=0)), f"{own[:, 1].max():.3g}"))
    head = ("kv_cache_dtype", "tokens", "rms", "kl", "same_best", "largest_kl")
    write(out / "distances-summary.csv", head, means)
    drawn = draw(out, POWERS)
    print(out if drawn else f"{out} (no figures: matplotlib is missing)")


if __name__ == "__main__":
    main()
