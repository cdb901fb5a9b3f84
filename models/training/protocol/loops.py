"""Measures tokens per round in speculative loops of PyTorch, as a check of the program's.

All prompts run in batches with rejection sampling, target and drafters in f32. Prints a line of CSV
for each trained drafter, temperature and draft length, with a bootstrap interval over prompts.
"""

import json
from argparse import Namespace
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from evaluate import load_folder
from heads.tau import generate, ratio
from protocol.evaluate import load_drafter

LENGTHS, TEMPERATURES, NEW = (4, 8), (0.7, 1.0), 96
BATCH, RESAMPLES, SEED = 64, 10_000, 43


def measure(work: Path, pair: Path, prompts: Path, limit: int, only: str) -> None:
    """Measure every trained drafter whose GROUP/DRAFTER-BUDGET matches ``only``."""
    target = load_folder(pair / "target").requires_grad_(False)
    eos = json.loads((pair / "target/config.json").read_text())["eos_token_id"]
    tokenizer = Tokenizer.from_file(str(pair / "target/tokenizer.json"))
    lines = prompts.read_text().splitlines()[:limit]
    ids = [tokenizer.encode(json.loads(line)["prompt"]).ids for line in lines]
    print("drafter,temperature,draft,prompts,tau,low,high", flush=True)
    for record in sorted(work.glob("*/[!.]*/training.json")):
        name = str(record.parent.relative_to(work))
        if not fnmatch(name, only):
            continue
        head = load_drafter(record.parent, target.config.hidden_size)
        for temperature in TEMPERATURES:
            for length in LENGTHS:
                settings = Namespace(temperature=temperature, draft=length, new=NEW)
                sums = []
                for start in range(0, len(ids), BATCH):
                    batch = ids[start : start + BATCH]
                    _, emitted = generate(target, head, batch, eos, settings, SEED + start)
                    sums.append(np.stack((emitted.sum(1), (emitted > 0).sum(1)), axis=1))
                found = np.concatenate(sums)
                chosen = np.random.default_rng(SEED).integers(len(found), size=(RESAMPLES, len(found)))
                low, high = np.percentile(ratio(found[chosen]), (2.5, 97.5))
                numbers = (f"{x:.3f}" for x in (ratio(found), low, high))
                print(name, temperature, length, len(found), *numbers, sep=",", flush=True)
