"""Tokens until a wrong decoder is refuted: by `specdec audit`, and by Model Equality Testing.

    cargo build --release
    python experiments/22-tokens-to-detection/run.py --work WORK --out OUT

Both read the same completions of a decoder that claims T = 1 over the whole vocabulary. The audit
has the models; the two-sample test has as many completions of plain decoding to the same prompts.
WORK gets completions with other settings, OUT the verdicts at each number of completions
(verdicts.csv), and the first number at which each test refutes (detection.csv). Verdicts that OUT
has are kept.
"""

import argparse
import csv
import gzip
import json
import random
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import numpy as np  # noqa: E402
import torch  # noqa: E402
from model_equality_testing.algorithm import run_two_sample_test  # noqa: E402
from model_equality_testing.distribution import CompletionSample  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ROOT / "results/10-field-audit/2026-11-25-amd-epyc-2c-own"
PLAIN, WRONG = "own-plain", "own-wrong-"
# Decoders that draw exactly, but with settings that nobody stated.
SILENT = {"temperature_0.95": {"temperature": 0.95}, "top_p_0.98": {"top_p": 0.98}}
CLAIM = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}
SIZES = [8, 16, 32, 64]
EACH = 4  # completions of a prompt
ORDERS, LEVEL, PERMUTATIONS = 3, 0.01, 200
LENGTH, PAD = 128, -1
RECORD = f"""question = "What does a decoder write that draws with other settings?"
target = "embedded-target"
dtype = "f32"
prompts = ["code", "docs", "edits"]
max_tokens = {LENGTH}
repeats = 4
seed = 22

[sweep]
drafter = "none"
"""
COLUMNS = ["decoder", "test", "order", "completions", "tokens", "refuted", "value"]


def read(file: Path) -> list[dict]:
    with gzip.open(file, "rt") as lines:
        return [json.loads(line) for line in lines]


def recorded(name: str, specdec: Path, work: Path) -> list[dict]:
    """Completions with settings that differ from the claim."""
    experiment, tape = work / f"{name}.toml", work / f"{name}.jsonl"
    settings = {"temperature": 1} | SILENT[name]
    sweep = "".join(f"{key} = {value}\n" for key, value in settings.items())
    experiment.write_text(RECORD + sweep)
    if not tape.exists():
        subprocess.run([specdec, "tape", "record", experiment, "--out", tape], check=True, cwd=ROOT)
    texts = [line["text"] for line in map(json.loads, tape.open()) if "text" in line]
    return [
        {"prompt": text["prompt"], "prompt_ids": text["prompt_tokens"], "output_ids": text["tokens"]}
        | {"sampling": CLAIM, "finish": text["end"]}
        for text in texts
    ]


def decoders(specdec: Path, work: Path) -> dict[str, list[dict]]:
    """Completions by decoder; an exact one first, which must not be refuted."""
    found = {"exact": read(TEXTS / "own-rejection.jsonl.gz")}
    for file in sorted(TEXTS.glob(f"{WRONG}*.jsonl.gz")):
        found[file.name.removeprefix(WRONG).removesuffix(".jsonl.gz")] = read(file)
    return found | {name: recorded(name, specdec, work) for name in SILENT}


def audited(lines: list[dict], specdec: Path, work: Path) -> tuple[bool, float]:
    """Whether the audit refutes the lines, and log10 of its e-value."""
    file = work / "lines.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [specdec, "audit", file, "--json", "--dtype", "f32", "--level", str(LEVEL)]
    command += ["--target", "embedded-target", "--draft", "embedded-draft"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if not done.stdout:
        sys.exit("the audit failed")
    verdict = json.loads(done.stdout)["verdicts"][0]
    return verdict["refuted"], verdict["log10_e"]


def sample(lines: list[dict], prompts: dict[str, int]) -> CompletionSample:
    """The lines as the package has them: numbers of prompts, and padded completions."""
    padded = np.full((len(lines), LENGTH), PAD)
    for row, line in zip(padded, lines):
        row[: len(line["output_ids"])] = line["output_ids"]
    numbers = np.array([prompts[line["prompt"]] for line in lines])
    return CompletionSample(numbers, padded, m=len(prompts))


def compared(lines: list[dict], plain: list[dict], prompts: dict[str, int]) -> tuple[bool, float]:
    """Whether the two-sample test refutes the lines, and its p-value."""
    samples = sample(lines, prompts), sample(plain, prompts)
    value, statistic = run_two_sample_test(*samples, stat_type="mmd_hamming", b=PERMUTATIONS)
    assert np.isfinite(statistic)
    return value <= LEVEL, value


def in_order(lines: list[dict], order: int, prompts: dict[str, int]) -> list[dict]:
    """A few completions of each prompt, prompt after prompt, in an order with this number."""
    names = random.Random(order).sample(list(prompts), len(prompts))
    by_prompt = {name: [line for line in lines if line["prompt"] == name] for name in names}
    return [line for name in names for line in by_prompt[name][:EACH]]


def verdicts(name: str, lines: list[dict], plain: list[dict], args) -> list[list]:
    """Verdicts of both tests over growing parts of the completions, until each refutes."""
    rows = []
    prompts = {name: at for at, name in enumerate(sorted({line["prompt"] for line in plain}))}
    for order in range(ORDERS):
        chosen, others = (in_order(part, order, prompts) for part in (lines, plain))
        torch.manual_seed(order)
        tests = {
            "audit": lambda n: audited(chosen[:n], args.specdec, args.work),
            "model_equality": lambda n: compared(chosen[:n], others[:n], prompts),
        }
        for test, decide in tests.items():
            for size in SIZES:
                refuted, value = decide(size)
                tokens = sum(len(line["output_ids"]) for line in chosen[:size])
                rows.append([name, test, order, size, tokens, int(refuted), round(value, 4)])
                if refuted:
                    break
    return rows


def detection(rows: list[list]) -> list[list]:
    """By decoder and test: how many orders were refuted, and the median of their tokens."""
    found: dict[tuple, list[float]] = {}
    for name, test, order, _, tokens, refuted, _ in rows:
        orders = found.setdefault((name, test), [float("inf")] * ORDERS)
        if int(refuted):
            orders[int(order)] = int(tokens)
    table = []
    for key, tokens in found.items():
        median = statistics.median(tokens)
        refuted = sum(number < float("inf") for number in tokens)
        table.append([*key, refuted, ORDERS, "" if median == float("inf") else int(median)])
    return table


def write(file: Path, columns: list[str], rows: list[list]) -> None:
    with file.open("w", newline="") as content:
        csv.writer(content, lineterminator="\n").writerows([columns, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--specdec", type=Path, default=ROOT / "target/release/specdec")
    args = parser.parse_args()
    args.work, args.specdec = args.work.resolve(), args.specdec.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    args.out.mkdir(parents=True, exist_ok=True)
    plain, rows, file = read(TEXTS / f"{PLAIN}.jsonl.gz"), [], args.out / "verdicts.csv"
    if file.exists():
        rows = list(csv.reader(file.open()))[1:]
    for name, lines in decoders(args.specdec, args.work).items():
        if name not in {row[0] for row in rows}:
            rows += verdicts(name, lines, plain, args)
            write(file, COLUMNS, rows)
            print(name, flush=True)
    columns = ["decoder", "test", "refuted", "orders", "median_tokens"]
    write(args.out / "detection.csv", columns, detection(rows))


if __name__ == "__main__":
    main()
