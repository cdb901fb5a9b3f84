"""Does more computation per question give better answers, and what does speculation save on it?

    cargo build --release
    python experiments/08-real-pair/fetch.py qwen2.5-coder-1.5b qwen2.5-coder-0.5b
    python experiments/11-test-time-compute/run.py

A part whose models or parser are not there is skipped with a line. A second call with the same
--out continues where the first ended.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import datetime
import json
import os
import time

HERE = Path(__file__).resolve().parent
# At the end, since that folder has a module called texts, too.
sys.path.append(str(HERE.parent / "08-real-pair"))

import fetch
import figure
import functions
import summary
from problems import REQUESTS
from tables import answer_row, function_row, greedy_rows, write
from texts import REPOSITORY, Question, Row, Texts, greedy, prompts

SAMPLING = ("--temperature", "0.8", "--top-p", "0.95")
# With `gumbel`, the seed alone decides the completion, regardless of the draft.
COUPLED = ("--verifier", "gumbel")
LIMITS = {"direct": "8", "steps": "120"}
LARGE, SMALL = "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"
EMBEDDED = "embedded"


def model(name: str) -> str:
    """The file of a model, in the repository."""
    return str((fetch.FOLDER / fetch.MODELS[name].file).relative_to(REPOSITORY))


def question(name: str, request: str, problem: str, prompt: str, method: str, n: int) -> Question:
    """A word problem for one of the two models."""
    options = ["--chat", "--best-of", "majority", "--target", model(name)]
    options += [*SAMPLING, *COUPLED, "--max-tokens", LIMITS[request]]
    if method == "speculative":
        options += ["--draft", model(SMALL), "-k", "3"]
    else:
        options.append("--plain")
    return Question(name, request, problem, prompt, method, tuple(options), n)


def asked(args: argparse.Namespace, names: list[str]) -> list[Question]:
    """All questions with word problems, those that are compared next to each other.

    Plain decoding makes the first texts of the large model again, to compare texts and times; of
    direct answers, speculation at temperature 0 is measured instead, since loading takes longer.
    The small model writes more than it is asked to, so it gets half as many samples.
    """
    plain, half = min(args.plain, args.samples), max(1, args.samples // 2)
    files = {request: prompts(HERE / f"{request}.jsonl") for request in REQUESTS}
    found = []
    for name in names:
        for request, texts in files.items():
            text = texts[name]
            found.append(question(LARGE, request, name, text, "speculative", args.samples))
            if request == "steps":
                found.append(question(LARGE, request, name, text, "plain", plain))
            found.append(question(SMALL, request, name, text, "plain", half))
    return found


def word_problems(args: argparse.Namespace) -> list[Row]:
    """The answers to word problems: greedy ones and samples."""
    if gone := [name for name in (LARGE, SMALL) if not (REPOSITORY / model(name)).exists()]:
        script = Path(fetch.__file__).relative_to(REPOSITORY)
        print(f"skipped: word problems; python {script} {' '.join(gone)} fetches their models")
        return []
    right = json.loads((HERE / "answers.json").read_text())
    rows = []
    for file, request in (("11-direct.toml", "direct"), ("11-steps.toml", "steps")):
        folder = greedy(args.specdec, HERE / file, args.problems, args.out / "greedy")
        rows += greedy_rows(folder, LARGE, request, right)
    names = list(dict.fromkeys(row.problem for row in rows))
    texts = Texts(args.specdec, args.out / "answers.jsonl")
    questions = asked(args, names)
    for number, one in enumerate(questions, 1):
        for sample, text in enumerate(texts.ask(one)):
            rows.append(answer_row(one, sample, text, right[one.problem]))
        progress("word problems", number, len(questions))
    return rows


def code(args: argparse.Namespace) -> list[Row]:
    """Functions that the embedded pair completes."""
    if not functions.available():
        print("skipped: functions; rustup component add rustfmt installs their parser")
        return []
    options = [*SAMPLING, "--max-tokens", "160", "--stop", functions.CLOSE]
    headings = list(prompts(HERE / "functions.jsonl").items())[: args.functions]
    texts = Texts(args.specdec, args.out / "continuations.jsonl")
    rows = []
    for number, (name, heading) in enumerate(headings, 1):
        one = Question(
            EMBEDDED, "function", name, heading, "speculative", tuple(options), args.samples
        )
        rows += [function_row(one, sample, text) for sample, text in enumerate(texts.ask(one))]
        progress("functions", number, len(headings))
    return rows


def progress(what: str, done: int, of: int) -> None:
    """One line for every tenth of the work."""
    if done * 10 // of > (done - 1) * 10 // of:
        print(f"{what}: {done} of {of}", flush=True)


def count(text: str) -> int:
    """Parses a number of things that there must be."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: allowed is a whole number from 1 on")
    return int(text)


def arguments() -> argparse.Namespace:
    """The command line."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    cores = len(os.sched_getaffinity(0))
    cpu = "-".join(summary.cpu_model().replace("(R)", "").lower().split()[:2])
    usual = REPOSITORY / "results" / HERE.name / f"{today}-{cpu}-{cores}c"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    program = REPOSITORY / "target" / "release" / "specdec"
    parser.add_argument("--specdec", type=Path, default=program, metavar="PATH")
    parser.add_argument("--out", type=Path, default=usual, metavar="DIR")
    parser.add_argument(
        "--problems", type=count, default=30, metavar="N", help="of thirty, chosen by the seed"
    )
    parser.add_argument("--functions", type=count, default=32, metavar="N")
    parser.add_argument("--samples", type=count, default=16, metavar="N", help="of each problem")
    parser.add_argument(
        "--plain", type=count, default=2, metavar="N", help="of them, also by plain decoding"
    )
    args = parser.parse_args()
    args.specdec, args.out = args.specdec.resolve(), args.out.resolve()
    if not args.specdec.exists():
        parser.error(f"{args.specdec}: there is no program; cargo build --release makes it")
    return args


def main() -> None:
    """Makes the texts, and writes tables and figure."""
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    before, start = os.getloadavg()[0], time.monotonic()
    rows = word_problems(args) + code(args)
    if not rows:
        sys.exit("nothing was run")
    write(args.out / "rows.csv", rows)
    curves = summary.curves(rows)
    write(args.out / "summary.csv", curves)
    write(args.out / "differences.csv", summary.differences(rows, LARGE, SMALL))
    write(args.out / "speculation.csv", summary.speculation(rows))
    figure.draw(curves, args.out / "test-time-compute.svg")
    minutes = round((time.monotonic() - start) / 60, 1)
    summary.record(args.out / "machine.json", args.specdec, before, minutes)
    print(f"{args.out} after {minutes} min")


if __name__ == "__main__":
    main()
