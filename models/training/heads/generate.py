"""Sample text from the target at temperature 1 into work/shards/*-sampled.bin.

A head drafts for the target's own text, so half of its windows come from there. A file grows
part by part, each of which begins with text of its split and depends only on its number; a
second run continues where the file ends.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from corpus import SPLITS
from data import Mixture
from evaluate import HERE, load_folder
from model import Llama
from sample import continuations

PROMPT, GENERATED, ROWS = 32, 480, 128
PART_BYTES = 2 * ROWS * (PROMPT + GENERATED)
SEED = 23


def extend(target: Llama, shards: Path, split: str, tokens: float) -> None:
    """Sample until the split's file holds the planned number of tokens."""
    mixture = Mixture(shards, ROWS * PROMPT, SEED, split)
    with (shards / f"{split}-sampled.bin").open("ab") as file:
        file.seek(file.truncate(file.tell() // PART_BYTES * PART_BYTES))
        while file.tell() < 2 * tokens:
            index = file.tell() // PART_BYTES
            torch.manual_seed(SEED + index)
            prompts = mixture.batch(PROMPT, index)[:, :PROMPT]
            found = continuations(target, prompts, GENERATED, temperature=1.0)
            file.write(found.numpy().astype(np.uint16).tobytes())
            file.flush()
            print(f"{split}: {file.tell() // 2} tokens", flush=True)


def main() -> None:
    """Sample for the training, and one part of each held-out split."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=float, required=True, help="planned sampled tokens")
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--target", type=Path, default=HERE.parent / "target")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    target = load_folder(args.target).to(torch.bfloat16).requires_grad_(False)
    for split in SPLITS:
        extend(target, args.work / "shards", split, args.tokens if split == "train" else 1)


if __name__ == "__main__":
    main()
