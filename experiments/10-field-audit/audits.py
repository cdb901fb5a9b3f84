"""Audits the texts of all arms with `specdec audit` and writes a table.

    python experiments/10-field-audit/audits.py TEXTS audits.csv

TEXTS has the files of `field.py`, ARM.jsonl or ARM.jsonl.gz. Next to the table, ARM.json has what
the audit printed.
"""

import argparse
import csv
import gzip
import json
import math
import subprocess
from pathlib import Path

from arms import ARMS
from common import MOST, ROOT, Arm

# The arm without speculation whose texts show what is due to other arithmetic.
PLAIN = {
    "llama-draft": "llama-plain",
    "llama-lookup": "llama-plain",
    "llama-draft-cold": "llama-plain-cold",
    "hf-draft": "hf-plain",
    "hf-lookup": "hf-plain",
    "hf-draft-cold": "hf-plain-cold",
    "hf-4.44-draft": "hf-4.44-plain",
    "vllm-draft": "vllm-plain",
    "vllm-lookup": "vllm-plain",
    "openvino-draft": "openvino-plain",
    "openvino-lookup": "openvino-plain",
}
# transformers 4.44 gives the draft model neither temperature nor truncation.
RAW_DRAFT = ["--draft-temperature", "1", "--draft-top-k", "0", "--draft-top-p", "1"]
DRAFTS = {"hf-4.44-draft-defaults": RAW_DRAFT, "hf-4.44-draft-cold": RAW_DRAFT}


# Verifiers of this project with a rule by which `specdec audit` looks at rounds.
RULES = ["rejection", "traversal", "token_match", "gumbel"]


def rule(arm: Arm) -> str | None:
    """The rule of an arm that drafts a chain of MOST tokens with a model and reports its rounds."""
    how, _, name = arm.speculation.partition(":")
    if how == "verifier":
        return name if name in RULES else None
    return "rejection" if how in ("draft", "mutant") and not arm.defaults else None


def texts(folder: Path, name: str) -> Path | None:
    files = [folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz"]
    return next((file for file in files if file.exists()), None)


def read(file: Path) -> list[dict]:
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
        return [json.loads(line) for line in lines]


def plain_of(arm: Arm) -> str:
    if arm.engine != "specdec_serve" or arm.speculation == "none":
        return PLAIN.get(arm.name, "-")
    return "own-plain" if arm.sampling.temperature == 1 else "own-plain-cold"


def audit(specdec: Path, folder: Path, arm: Arm) -> dict:
    """What the program prints of an arm."""
    command = [specdec, "audit", texts(folder, arm.name), "--json", "--dtype", "f32"]
    command += ["--target", "embedded-target", "--draft", "embedded-draft"]
    plain = texts(folder, plain_of(arm))
    command += [] if plain is None else ["--plain", plain]
    command += DRAFTS.get(arm.name, [])
    if rule(arm):
        command += ["--num-speculative-tokens", MOST, "--rule", rule(arm)]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(f"{arm.name}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def rounds(verdict: dict) -> dict:
    """What the rounds of an arm show, if it reports them."""
    found = verdict.get("rounds")
    if not found:
        return dict.fromkeys(ROUNDS, "")
    accepted, expected = (sum(at[key] for at in found["positions"]) for key in ACCEPTED)
    differ = found["log10_e"] >= -math.log10(verdict["level"])
    more = found["log10_e_more"] > found["log10_e_fewer"]
    said = ("more" if more else "fewer") if differ else "as the rule"
    numbers = [found["rule"], found["rounds"], accepted, round(expected, 1)]
    return dict(zip(ROUNDS, [*numbers, round(found["log10_e"], 2), said], strict=True))


ACCEPTED = ["accepted", "expected"]
ROUNDS = ["rule", "rounds", "accepted", "expected_accepted", "rounds_log10_e", "accepts"]


def row(arm: Arm, found: dict, lines: list[dict]) -> dict:
    (verdict,) = found["verdicts"]
    bets = {bet["bug"]: bet for bet in verdict["bets"]}
    named = bets.get(verdict["bug"], {})
    bounds = [bet["tv_bound"] for bet in bets.values() if bet["tv_bound"] is not None]
    shifts = [bet["tv_detectable"] for bet in bets.values() if bet["tv_detectable"] is not None]
    passes = [line["passes"] for line in lines if "passes" in line]
    sampling = arm.sampling
    return {
        "arm": arm.name,
        "engine": arm.engine,
        "version": arm.version,
        "speculation": arm.speculation,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "defaults": int(arm.defaults),
        "texts": verdict["texts"],
        "tokens": verdict["tokens"],
        "tokens_per_pass": round(verdict["tokens"] / sum(passes), 3) if passes else "",
        "refuted": int(verdict["refuted"]),
        "log10_e": round(verdict["log10_e"], 2),
        "plain_log10_e": verdict["plain_log10_e"],
        "impossible": verdict["impossible"],
        "bug": verdict["bug"] or "",
        "strength": named.get("strength", ""),
        "tv": named.get("tv", ""),
        # Over the bugs: what one audit says at least and at most.
        "largest_tv_bound": max(bounds, default=""),
        "least_detectable_tv": min(shifts, default=""),
        "most_detectable_tv": max(shifts, default=""),
        **rounds(verdict),
        "seeds": json.dumps(found["seeds"]) if found.get("seeds") else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--specdec", type=Path, default=ROOT / "target/release/specdec")
    args = parser.parse_args()
    rows = []
    for arm in ARMS:
        file = texts(args.texts, arm.name)
        if file is None:
            print(f"{arm.name}: no texts")
            continue
        found = audit(args.specdec, args.texts, arm)
        (args.table.parent / f"{arm.name}.json").write_text(json.dumps(found, indent=1) + "\n")
        rows.append(row(arm, found, read(file)))
        print(*(f"{key}={value}" for key, value in rows[-1].items() if value != ""))
    with args.table.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
