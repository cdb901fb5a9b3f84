"""Runs of heads with each known fault, their acceptance by position, and what `specdec gate` says.

    cargo build --release
    python experiments/18-head-faults/run.py --head NAME=FOLDER… --work WORK --out OUT

Every head runs once as it is, once more with other seeds, and once with each fault that it can have.
OUT gets acceptance.csv, verdicts.csv and manifest.json. A run that exists in WORK is kept.
"""

import argparse
import csv
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPECDEC = ROOT / "target/release/specdec"
K, MAX_TOKENS, REPEATS, SEEDS = 6, 128, 2, {"right": 16, "again": 17}
CHANGES = ("first", "later", "early", "late")
VERDICT = ["head", "fault", "tau", "finding", "place"]
VERDICT += [column for place in CHANGES for column in (place, f"{place}_error")]
EXPERIMENT = """question = "How much does {name} accept?"
target = "target"
draft = "{name}"
dtype = "f32"
clock = "virtual"
prompts = ["code", "docs", "edits"]
max_tokens = {tokens}
repeats = {repeats}
seed = {seed}
ignore_eos = true

[[sweep]]
drafter = "model"
num_speculative_tokens = {k}
temperature = 1
"""


def faults() -> list[str]:
    """The faults of heads in the table of bugs."""
    rows = re.findall(r"^\| `(\w+)` .*\| head \|$", (ROOT / "docs/bugs.md").read_text(), re.M)
    return [*SEEDS, *rows]


def catalog(heads: dict[str, Path], work: Path) -> None:
    """Write the names of all wrong heads, and links to the prompts."""
    tables = [f'[target]\npath = "{ROOT / "models/target"}"\n']
    for head, folder in heads.items():
        for fault in faults():
            table = f'[{head}-{fault}]\npath = "{folder.resolve()}"\n'
            tables.append(table + ("" if fault in SEEDS else f'fault = "{fault}"\n'))
    configs = work / "configs"
    configs.mkdir(parents=True, exist_ok=True)
    (configs / "models.toml").write_text("\n".join(tables))
    if not (configs / "prompts").exists():
        (configs / "prompts").symlink_to(ROOT / "configs/prompts")


def run(name: str, fault: str, work: Path) -> Path | None:
    """Run a head, unless it has been; `None` if the fault changes nothing in it."""
    results = work / "results" / name
    for folder in results.glob("*/summary.csv"):
        return folder.parent
    experiment = work / "experiments" / f"{name}.toml"
    experiment.parent.mkdir(exist_ok=True)
    seed = SEEDS.get(fault, SEEDS["again"])
    values = {"name": name, "tokens": MAX_TOKENS, "repeats": REPEATS, "seed": seed, "k": K}
    experiment.write_text(EXPERIMENT.format(**values))
    command = [SPECDEC, "run", experiment, "--out", work / "results"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    if f"fault = {fault}" in done.stderr:
        return None
    if done.returncode:
        sys.exit(done.stderr)
    return next(results.glob("*/summary.csv")).parent


def positions(folder: Path) -> list[list[int]]:
    """Drafted tokens that were decided on, and accepted ones, by position."""
    counts = [[0, 0] for _ in range(K)]
    with (folder / "rounds.csv").open() as file:
        for row in csv.DictReader(file):
            accepted = int(row["accepted"])
            for at in range(min(int(row["proposed"]), accepted + 1)):
                counts[at][0] += 1
                counts[at][1] += at < accepted
    return counts


def gate(right: Path, folder: Path) -> dict:
    """What the gate says of a run next to the right one."""
    file = folder / "gate.json"
    subprocess.run([SPECDEC, "gate", right, folder, "--json", file], capture_output=True)
    return json.loads(file.read_text())


def arguments(page: str) -> tuple[dict[str, Path], Path, Path]:
    """The heads by name, the folder of runs, and that of results."""
    parser = argparse.ArgumentParser(description=page)
    parser.add_argument("--head", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    heads = {name: Path(path) for name, path in (head.split("=", 1) for head in args.head)}
    args.out.mkdir(parents=True, exist_ok=True)
    return heads, args.work.resolve(), args.out


def main() -> None:
    heads, work, out = arguments(__doc__)
    catalog(heads, work)
    acceptance, verdicts = [], []
    for head in heads:
        found = {fault: run(f"{head}-{fault}", fault, work) for fault in faults()}
        for fault, folder in found.items():
            if folder is None:
                continue
            said = gate(found["right"], folder)
            for at, (decided, accepted) in enumerate(positions(folder), start=1):
                acceptance.append([head, fault, at, decided, accepted])
            changes = [
                round(said["changes"][place][part], 4)
                for place in CHANGES
                for part in ("change", "error")
            ]
            row = [head, fault, round(said["tau"][1], 4), said["finding"], said["place"] or "-"]
            print(*row, *changes, flush=True)
            verdicts.append([*row, *changes])
    tables = {
        "acceptance.csv": (["head", "fault", "position", "decided", "accepted"], acceptance),
        "verdicts.csv": (VERDICT, verdicts),
    }
    for name, (header, rows) in tables.items():
        with (out / name).open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([header, *rows])
    digest = {
        head: hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
        for head, folder in heads.items()
    }
    version = subprocess.run([SPECDEC, "--version"], capture_output=True, text=True).stdout.strip()
    manifest = {"program": version, "heads": digest, "k": K, "temperature": 1}
    manifest |= {"max_tokens": MAX_TOKENS, "repeats": REPEATS, "seeds": SEEDS}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
