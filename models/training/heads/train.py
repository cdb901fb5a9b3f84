"""Train a head against the target; run the same command again to resume.

The loss is KL(target ‖ head) first, then total variation + 0.1 · KL. A copy of the checkpoint
stays where the learning rate begins to fall: to lengthen a finished run, put the copy in the
checkpoint's place and name more tokens.
"""

import argparse
import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from checkpoint import save
from evaluate import HERE, load_folder
from heads.eagle3 import Eagle3
from heads.lessons import MICRO_TOKENS, SEED, Lessons, Objective
from heads.parts import hidden_states
from heads.tap_draft import TapDraft
from model import Llama
from optim import Muon, Optimizers, schedule
from team import Team

HEADS = {"tap": TapDraft, "eagle3": Eagle3}
FC_LR, LAYERS_LR = {"tap": 0.001, "eagle3": 0.02}, {"tap": 0.015, "eagle3": 0.02}  # of Muon
ADAM_LR = {"tap": 3e-3, "eagle3": 3e-3}
SHORT_CONTEXT, LONG_CONTEXT = 256, 512  # tokens per window; long while the rate falls
MICRO = 4  # micro-batches per step
KL_UNTIL, DECAY = 0.4, 0.3  # shares of the plan
LOG_STEPS, EVALUATE_STEPS, EVALUATED = 50, 250, 24
SAVE_SECONDS = 120


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("head", choices=HEADS)
    parser.add_argument("--tokens", type=float, required=True, help="planned training tokens")
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--target", type=Path, default=HERE.parent / "target")
    parser.add_argument("--draft", type=Path, default=HERE.parent / "draft")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


class HeadOptimizers(Optimizers):
    """Muon for the projections, with a learning rate of its own for ``fc``; AdamW for the rest."""

    def __init__(self, head: nn.Module, kind: str):
        named = list(head.named_parameters())
        layers = [p for name, p in named if p.ndim == 2 and "layers." in name]
        projections = {head.fc.weight, *layers}
        rest = [p for _, p in named if p not in projections]
        adam = torch.optim.AdamW(rest, lr=ADAM_LR[kind], betas=(0.9, 0.95), weight_decay=0.0)
        self.pairs = (
            (Muon([head.fc.weight], lr=FC_LR[kind]), FC_LR[kind]),
            (Muon(layers, lr=LAYERS_LR[kind]), LAYERS_LR[kind]),
            (adam, ADAM_LR[kind]),
        )


def new_head(kind: str, target: Llama, draft: Llama, lessons: Lessons) -> nn.Module:
    """Return an untrained head, scaled to the target's hidden states."""
    torch.manual_seed(SEED)
    head = HEADS[kind](draft, target.config.hidden_size)
    with torch.no_grad():
        batches = [lessons.batch(SHORT_CONTEXT, index)[0] for index in range(8)]
        head.begin(hidden_states(target.model, torch.cat(batches)))
    return head


@torch.no_grad()
def evaluate(objective: Objective, held_out: Lessons, count: int, part=slice(None)) -> dict:
    """Return the mean KL and overlap by depth on a part of the windows of ``count`` batches."""
    found = []
    for index in range(count):
        ids, anchors = held_out.batch(LONG_CONTEXT, index)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found.append(objective((ids[part], anchors), 0).tolist())
    return by_depth(found)


def by_depth(outputs: list[list[float]]) -> dict[str, list[float]]:
    """Average the objective's outputs after the loss."""
    kl, overlap = np.mean(outputs, axis=0)[1:].reshape(2, -1).round(4).tolist()
    return {"kl": kl, "overlap": overlap}


def main() -> None:
    """Train for the planned number of tokens."""
    args = arguments()
    torch.set_num_threads(args.workers)
    path = args.work / f"{args.head}.pt"
    (args.work / f"{args.head}.pid").write_text(f"{os.getpid()}\n")
    target, draft = load_folder(args.target), load_folder(args.draft)
    lessons, valid = (Lessons(args.work / "shards", split) for split in ("train", "valid"))
    head = new_head(args.head, target, draft, lessons)
    optimizers = HeadOptimizers(head, args.head)
    state = {"tokens": 0, "step": 0, "seconds": 0.0}
    if path.exists():
        checkpoint = torch.load(path)
        head.load_state_dict(checkpoint["model"])
        optimizers.load_state_dict(checkpoint["optimizers"])
        state = checkpoint["state"]
    objective = Objective(head, target)
    outputs, compiled = 1 + 2 * head.depths, not args.no_compile
    team = Team(objective, lessons, args.workers, outputs, "cpu", compiled)
    log = (args.work / f"{args.head}.jsonl").open("a")
    batch_tokens = MICRO_TOKENS * MICRO

    saved, since, running = time.monotonic(), time.monotonic(), []
    finished = state["tokens"] >= args.tokens
    while not finished:
        done = state["tokens"] / args.tokens
        phase = 0 if done < KL_UNTIL else 1
        context = SHORT_CONTEXT if done < 1 - DECAY else LONG_CONTEXT
        running.append(team.gradients(context, state["step"] * MICRO, MICRO, phase))
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizers.step(schedule(done, decay=DECAY))
        state["tokens"] += batch_tokens
        state["step"] += 1

        finished = state["tokens"] >= args.tokens
        if state["step"] % LOG_STEPS == 0 or finished:
            now = time.monotonic()
            state["seconds"] += now - since
            row = {**state, "phase": phase, **by_depth(running)}
            row["tokens_per_second"] = round(len(running) * batch_tokens / (now - since))
            if state["step"] % EVALUATE_STEPS == 0 or finished:
                row["held_out"] = evaluate(objective, valid, EVALUATED)
            print(json.dumps(row), file=log, flush=True)
            since, running = time.monotonic(), []
        begins_to_fall = done < 1 - DECAY <= state["tokens"] / args.tokens
        if finished or begins_to_fall or time.monotonic() - saved > SAVE_SECONDS:
            content = {"model": head.state_dict(), "optimizers": optimizers.state_dict()}
            save(path, {**content, "state": state, "head": args.head})
            saved = time.monotonic()
        if begins_to_fall:
            shutil.copyfile(path, args.work / f"{args.head}.plateau.pt")
    team.close()


if __name__ == "__main__":
    main()
