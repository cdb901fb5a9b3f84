"""Measure heads on held-out crates: KL and overlap by depth, next to the shipped draft.

Windows come from the test split, as they are and as the target continues them; tokens of the
drafts are the text's own. The draft's numbers differ by depth only as the positions do.
"""

import argparse
import json
from pathlib import Path

import torch

from evaluate import HERE, load_folder
from heads.lessons import Lessons, Objective
from heads.tap_draft import TapDraft
from heads.tau import load_head
from heads.train import HEADS, evaluate

BATCHES = 64
PARTS = {"text": slice(0, 1), "own": slice(1, 2)}


def main() -> None:
    """Print one line of JSON for every head and kind of text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heads", nargs="+", choices=HEADS)
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    target = load_folder(HERE.parent / "target")
    lessons = Lessons(args.work / "shards", "test")
    drafters = {"draft": TapDraft(load_folder(HERE.parent / "draft"), target.config.hidden_size)}
    for kind in args.heads:
        lent = load_folder(HERE.parent / "draft")
        drafters[kind] = load_head(kind, args.work / f"{kind}.pt", target, lent)
    for name, head in drafters.items():
        for part, rows in PARTS.items():
            found = evaluate(Objective(head, target), lessons, BATCHES, rows)
            print(json.dumps({"drafter": name, "text": part, **found}), flush=True)


if __name__ == "__main__":
    main()
