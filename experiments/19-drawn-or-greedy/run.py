"""Acceptance of drawn and of greedy drafts: exact at each position, forecast, and measured.

    cargo build --release
    python experiments/19-drawn-or-greedy/run.py --work WORK --out OUT [--draft NAME=MODEL…]

MODEL is what `draft` of an experiment may be: a name, or the folder of a draft model or a head.
OUT gets levels.csv, categories.csv, chains.csv, measured.csv, gaps.csv and manifest.json. Tapes and
runs that exist in WORK are kept.
"""

import argparse
import csv
import json
import subprocess
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPECDEC = HERE.parents[1] / "target/release/specdec"
DRAFTS = {
    "draft": "embedded-draft",
    "tap": "embedded-tap-draft",
    "exit": "target:exit=5",
    "ngram": "",
}
TEMPERATURES = [0.3, 0.5, 0.7, 1.0]
# Runs without trees: an n-gram model drafts none, and those of an early exit take long.
CHAINS_ONLY = {"exit", "ngram"}
# Other temperatures of drafts, on the tape alone: sharper and flatter ones.
SCALED = {"draft": [0.5, 1, 1.5, 2]}
# Completions per prompt and seeds, of the tape and of the runs.
K, TOKENS, REPEATS, SEEDS = 4, 64, (2, 1), (19, 20)
BASE = """question = "Are drafts accepted more if they are drawn or if they are greedy?"
target = "embedded-target"
dtype = "f32"
threads = 1
clock = "virtual"
prompts = ["code", "docs", "edits"]
max_tokens = {tokens}
repeats = {repeats}
seed = {seed}
ignore_eos = true
"""
CHAINS = """
[[sweep]]
drafter = "{drafter}"
num_speculative_tokens = {k}
temperature = {temperatures}

[[sweep]]
drafter = "{drafter}"
draft_temperature = 0
num_speculative_tokens = {k}
temperature = {temperatures}
"""
TREES = """
[[sweep]]
drafter = "model_tree"
siblings = {siblings}
tree = ["2", "2,2,2"]
verifier = "{verifier}"
num_speculative_tokens = 3
temperature = {temperatures}
"""
RULES = {"rejection": ["top_k", "independent", "distinct"], "greedy_multi": ["last_sampled"]}
BOUNDED = ["", "_lo", "_hi"]


def text(tokens: int, repeats: int, seed: int, draft: str, sweeps: str) -> str:
    """An experiment."""
    named = f'draft = "{draft}"\n' if draft else ""
    return BASE.format(tokens=tokens, repeats=repeats, seed=seed) + named + sweeps


def call(*command: object) -> str:
    line = [SPECDEC, *map(str, command)]
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout


def record(work: Path) -> Path:
    """Completions of the target, which all drafters score."""
    file, experiment = work / "plain.jsonl", work / "plain.toml"
    sweep = f'\n[sweep]\ndrafter = "none"\ntemperature = {TEMPERATURES}\n'
    experiment.write_text(text(TOKENS, REPEATS[0], SEEDS[0], "", sweep))
    if not file.exists():
        call("tape", "record", experiment, "--out", file)
    return file


def score(name: str, draft: str, plain: Path, work: Path) -> Path:
    """A copy of the completions with the scores of a drafter's drawn and greedy drafts."""
    file = work / f"{name}.jsonl"
    if not file.exists():
        part = work / f"{name}.part.jsonl"
        part.write_bytes(plain.read_bytes())
        which = ["--draft", draft] if draft else ["--drafter", "ngram_lm"]
        which += ["--target", "embedded-target", "--dtype", "f32", "--threads", 1]
        which += ["--most", K]
        call("tape", "score", part, *which, "--overlap")
        for temperature in SCALED.get(name, []):
            call("tape", "score", part, *which, "--overlap", "--draft-temperature", temperature)
        call("tape", "score", part, *which, "--draft-temperature", 0)
        part.rename(file)
    return file


def run(name: str, draft: str, work: Path) -> Path:
    """The runs of a drafter."""
    results, experiment = work / "results" / name, work / f"{name}.toml"
    values = {"k": K, "temperatures": TEMPERATURES, "drafter": "model" if draft else "ngram_lm"}
    sweeps = CHAINS.format(**values)
    for verifier, siblings in () if name in CHAINS_ONLY else RULES.items():
        sweeps += TREES.format(siblings=json.dumps(siblings), verifier=verifier, **values)
    experiment.write_text(text(TOKENS, REPEATS[1], SEEDS[1], draft, sweeps))
    if not list(results.glob("*/summary.csv")):
        call("run", experiment, "--out", work / "results")
    (summary,) = results.glob("*/summary.csv")
    return summary


def bounded(found: dict | None) -> list:
    """A value with the ends of its interval."""
    ends = [found and found[end] for end in ("value", "lo", "hi")]
    return ["" if end is None else round(end, 6) for end in ends]


def categories(name: str, lines: list[dict]) -> list[list]:
    """Exact acceptance of one token by temperature and category of prompts."""
    samplings = lines[0]["tape"]["samplings"]
    texts = [line["text"] for line in lines if "text" in line]
    sums = defaultdict(lambda: [0, 0.0, 0.0])
    for score in (line["score"] for line in lines if "score" in line):
        if "level" not in score or score["drafter"] > 0:
            continue
        own = texts[score["text"]]
        group = sums[samplings[own["sampling"]]["temperature"], own["category"]]
        # No draft has the last token.
        for drawn, greedy in zip(score["overlap"][:-1], score["level"]["greedy"]):
            group[0] += 1
            group[1] += drawn
            group[2] += greedy[0]
    return [
        [name, *key, positions, round(drawn / positions, 6), round(greedy / positions, 6)]
        for key, (positions, drawn, greedy) in sorted(sums.items())
    ]


def drafter(name: str, draft: str, plain: Path, work: Path) -> tuple[dict[str, list], str]:
    """The rows of a drafter, by table, and the hash of its model."""
    tape, summary = score(name, draft, plain, work), run(name, draft, work)
    found = json.loads(call("forecast", tape, "--json", "--against", summary.parent))
    lines = [json.loads(line) for line in tape.open()]
    samplings = lines[0]["tape"]["samplings"]
    drafters = [line["drafter"] for line in lines if "drafter" in line]
    rows = {"categories": categories(name, lines), "levels": [], "chains": []}
    for own in found["greedy"]:
        scaled = drafters[own["drafter"]].get("params", {}).get("draft_temperature", "")
        first = [name, samplings[own["sampling"]]["temperature"], scaled]
        for level in own["levels"]:
            values = [level[key] for key in ("drawn", "rejection", "greedy", "ratio")]
            ends = [end for value in values for end in bounded(value)]
            share = round(level["greedy_better"], 6)
            counts = [level[key] for key in ("tokens", "draws", "positions", "prompts")]
            rows["levels"].append([*first, *counts, *ends, share])
        for chain in own["chains"]:
            values = [chain[key] for key in ("rejection", "traversal", "greedy", "ratio")]
            ends = [end for value in values for end in bounded(value)]
            rows["chains"].append([*first, chain["num_speculative_tokens"], *ends])
    cells = [cell for cell in csv.DictReader(summary.open()) if cell["block_efficiency"]]
    rows["measured"] = [[name, *(cell[column] for column in MEASURED)] for cell in cells]
    params = {cell["cell"]: cell["params"] for cell in cells}
    rows["gaps"] = [
        [name, gap["temperature"], params[gap["cell"]], *(gap[column] for column in GAPS)]
        for gap in found["gaps"]
    ]
    return rows, (drafters[0].get("model") or {}).get("sha256", "")


MEASURED = ["temperature", "drafter", "params", "verifier", "num_speculative_tokens", "rounds"]
MEASURED += ["loop_share", "block_efficiency", "block_efficiency_lo", "block_efficiency_hi"]
GAPS = ["num_speculative_tokens", "prompts", "forecast", "measured", "ratio", "ratio_lo99"]
GAPS += ["ratio_hi99", "inside"]
HEADERS = {
    "levels": ["draft", "temperature", "draft_temperature", "tokens", "draws", "positions", "prompts"]
    + [name + end for name in ("drawn", "rejection", "greedy", "ratio") for end in BOUNDED]
    + ["greedy_better"],
    "categories": ["draft", "temperature", "category", "positions", "drawn", "greedy"],
    "chains": ["draft", "temperature", "draft_temperature", "num_speculative_tokens"]
    + [name + end for name in ("rejection", "traversal", "greedy", "ratio") for end in BOUNDED],
    "measured": ["draft", *MEASURED],
    "gaps": ["draft", "temperature", "params", *GAPS],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draft", action="append", default=[], metavar="NAME=MODEL")
    parser.add_argument("--given-alone", action="store_true", help="leave the shipped drafts out")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    args.out.mkdir(parents=True, exist_ok=True)
    given = dict(named.split("=", 1) for named in args.draft)
    drafts = given if args.given_alone else DRAFTS | given
    plain = record(work)
    tables, hashes = defaultdict(list), {}
    for name, draft in drafts.items():
        found, hashes[name] = drafter(name, draft, plain, work)
        for table, rows in found.items():
            tables[table] += rows
    for table, rows in tables.items():
        with (args.out / f"{table}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADERS[table], *rows])
    manifest = {"program": call("--version").strip(), "drafts": hashes, "k": K}
    manifest |= {"max_tokens": TOKENS, "repeats": REPEATS, "seeds": SEEDS}
    (args.out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
