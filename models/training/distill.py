"""Distil the draft from the target: forward KL first, then total variation.

The expected share of accepted drafts is one minus the total variation between draft and
target, so the last part of the training minimises just that. A quarter of the text is
sampled from the target itself, because that is what a draft reads when it is used.
"""

import argparse
import copy
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from checkpoint import load_model, save
from data import Mixture, Windows
from model import Llama
from optim import ADAM_LR, Optimizers, schedule
from sample import continuations
from team import Team

CONTEXT = 512
MICRO_TOKENS = 1_024
MICRO = 4  # micro-batches per step; every fourth one is sampled text
BATCH_TOKENS = MICRO * MICRO_TOKENS
PROMPT, GENERATED = 32, 224
SAMPLE_ROWS = 128
KL_UNTIL = 0.5
KL_WEIGHT = 0.1
SEED = 11
SAVE_SECONDS = 60


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=float, required=True, help="planned training tokens")
    parser.add_argument("--hours", type=float, default=float("inf"), help="end sooner after these")
    parser.add_argument("--sampled", type=float, default=2e5, help="tokens drawn from the target")
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--workers", type=int, default=1 if cuda else os.cpu_count())
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


def sample_text(target: Llama, shards: Path, path: Path, tokens: float, device: str) -> None:
    """Write target samples at temperature 1 that begin with training text."""
    mixture = Mixture(shards, SAMPLE_ROWS * PROMPT, SEED)
    fast = copy.deepcopy(target).to(torch.bfloat16)
    batches = []
    for index in range(max(1, round(tokens / (SAMPLE_ROWS * GENERATED)))):
        prompts = mixture.batch(PROMPT, index)[:, :PROMPT].to(device)
        found = continuations(fast, prompts, GENERATED, temperature=1.0)
        batches.append(found.cpu().numpy().astype(np.uint16))
    temporary = path.with_suffix(".tmp")
    np.concatenate(batches).tofile(temporary)
    temporary.replace(path)


class Text:
    """Training text, and sampled text in every fourth micro-batch."""

    def __init__(self, shards: Path, sampled: Path):
        self.mixture = Mixture(shards, MICRO_TOKENS, SEED)
        self.sampled = Windows(sampled, CONTEXT, SEED)

    def batch(self, context: int, index: int) -> Tensor:
        """Return micro-batch ``index``, shape (MICRO_TOKENS / context, context + 1)."""
        group, place = divmod(index, MICRO)
        if place < MICRO - 1:
            return self.mixture.batch(context, group * (MICRO - 1) + place)
        rows = self.sampled.batch(group, MICRO_TOKENS // context)
        return torch.from_numpy(rows.astype(np.int64))


class Objective(nn.Module):
    """Divergence of the draft from the target on a batch of windows."""

    def __init__(self, target: Llama, draft: Llama):
        super().__init__()
        self.target, self.draft = target, draft

    def forward(self, windows: Tensor, phase: int) -> Tensor:
        """Return the phase's loss, mean KL(target ‖ draft) and mean total variation."""
        ids = windows[:, :-1]
        with torch.no_grad():
            log_p = self.target(ids).float().log_softmax(-1)
            p = log_p.exp()
        log_q = self.draft(ids).float().log_softmax(-1)
        kl = (p * (log_p - log_q)).sum(-1).mean()
        variation = 0.5 * (p - log_q.exp()).abs().sum(-1).mean()
        loss = kl if phase == 0 else variation + KL_WEIGHT * kl
        return torch.stack((loss, kl, variation))


def main() -> None:
    """Distil until the planned tokens are seen."""
    args = arguments()
    torch.set_num_threads(args.workers)
    torch.manual_seed(SEED)
    (args.work / "distill.pid").write_text(f"{os.getpid()}\n")
    shards, path = args.work / "shards", args.work / "distilled.pt"
    target, _ = load_model(args.work / "target.pt", args.device)
    target.requires_grad_(False)

    state = {"tokens": 0, "step": 0, "seconds": 0.0}
    start = path if path.exists() else args.work / "draft.pt"
    draft, checkpoint = load_model(start, args.device)
    optimizers = Optimizers(draft, ADAM_LR["draft"])
    if path.exists():
        optimizers.load_state_dict(checkpoint["optimizers"])
        state = checkpoint["state"]

    sampled = shards / "sampled.bin"
    if not sampled.exists():
        sample_text(target, shards, sampled, args.sampled, args.device)
    objective = Objective(target, draft)
    text = Text(shards, sampled)
    team = Team(objective, text, args.workers, 3, args.device, not args.no_compile)
    log = (args.work / "distilled.jsonl").open("a")

    saved, since, running = time.monotonic(), time.monotonic(), []
    done = 0.0
    while done < 1.0:
        seconds = state["seconds"] + time.monotonic() - since
        done = max(state["tokens"] / args.tokens, seconds / (3600 * args.hours))
        phase = 0 if done < KL_UNTIL else 1
        running.append(team.gradients(CONTEXT, state["step"] * MICRO, MICRO, phase))
        nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
        optimizers.step(schedule(done))
        state["tokens"] += BATCH_TOKENS
        state["step"] += 1

        finished = done >= 1.0
        if state["step"] % 50 == 0 or finished:
            now = time.monotonic()
            state["seconds"] += now - since
            _, kl, variation = np.mean(running, axis=0)
            row = {
                **state,
                "phase": phase,
                "kl": round(float(kl), 4),
                "alpha": round(1 - float(variation), 4),
                "tokens_per_second": round(len(running) * BATCH_TOKENS / (now - since)),
                "done": round(done, 4),
            }
            print(json.dumps(row), file=log, flush=True)
            since, running = time.monotonic(), []
        if finished or time.monotonic() - saved > SAVE_SECONDS:
            save(
                path,
                {
                    "model": draft.state_dict(),
                    "optimizers": optimizers.state_dict(),
                    "state": state,
                    "shape": draft.config.to_dict(),
                },
            )
            saved = time.monotonic()
    team.close()


if __name__ == "__main__":
    main()
