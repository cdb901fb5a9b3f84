"""Append text sampled from the target at temperature 1 to work/sampled.bin.

A head drafts for the target's own text, so half of its training windows come from there. The
file grows part by part, each of which begins with training text and depends only on its
number; a second run continues where the file ends.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from data import Mixture
from evaluate import HERE, load_folder
from sample import continuations

PROMPT, GENERATED, ROWS = 32, 480, 128
PART_BYTES = 2 * ROWS * (PROMPT + GENERATED)
SEED = 23


def main() -> None:
    """Sample until the file holds the planned number of tokens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=float, required=True, help="planned sampled tokens")
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--target", type=Path, default=HERE.parent / "target")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    target = load_folder(args.target).to(torch.bfloat16).requires_grad_(False)
    mixture = Mixture(args.work / "shards", ROWS * PROMPT, SEED)
    with (args.work / "sampled.bin").open("ab") as file:
        file.seek(file.truncate(file.tell() // PART_BYTES * PART_BYTES))
        while file.tell() < 2 * args.tokens:
            index = file.tell() // PART_BYTES
            torch.manual_seed(SEED + index)
            prompts = mixture.batch(PROMPT, index)[:, :PROMPT]
            found = continuations(target, prompts, GENERATED, temperature=1.0)
            file.write(found.numpy().astype(np.uint16).tobytes())
            file.flush()
            print(f"{file.tell() // 2} tokens sampled", flush=True)


if __name__ == "__main__":
    main()
