"""Distil the draft from the target: forward KL first, then total variation.

The expected share of accepted drafts is one minus the total variation between draft and
target, so the last part of the training minimises just that. A quarter of the text is
sampled from the target itself, because that is what a draft reads when it is used.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from checkpoint import load_model, save
from data import Mixture, Windows
from model import DRAFT, Llama
from optim import Optimizers, schedule
from sample import continuations

CONTEXT = 256
PROMPT, GENERATED = 64, 448
MICRO_ROWS = 16
SAMPLED_ROWS = 4
BATCH_TOKENS = MICRO_ROWS * CONTEXT
SAMPLE_BATCH = 128
KL_UNTIL = 0.5
KL_WEIGHT = 0.1
SEED = 11
SAVE_SECONDS = 60


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=float, required=True, help="planned training tokens")
    parser.add_argument("--sampled", type=float, default=4e5, help="tokens drawn from the target")
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


def sample_text(target: Llama, shards: Path, path: Path, tokens: float, device: str) -> None:
    """Write target samples at temperature 1 that begin with training text."""
    mixture = Mixture(shards, PROMPT, SEED)
    batches = []
    for index in range(max(1, round(tokens / (SAMPLE_BATCH * GENERATED)))):
        prompts = mixture.batch(index, SAMPLE_BATCH)[:, :PROMPT].to(device)
        with torch.autocast(device, dtype=torch.bfloat16):
            batches.append(continuations(target, prompts, GENERATED, 1.0).cpu().numpy())
    np.concatenate(batches).astype(np.uint16).tofile(path)


class Objective(nn.Module):
    """Divergence of the draft from the target on a batch of windows."""

    def __init__(self, target: Llama, draft: Llama):
        super().__init__()
        self.target, self.draft = target, draft

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean KL(target ‖ draft) and mean total variation."""
        with torch.no_grad():
            log_p = self.target(ids).float().log_softmax(-1)
            p = log_p.exp()
        log_q = self.draft(ids).float().log_softmax(-1)
        kl = (p * (log_p - log_q)).sum(-1).mean()
        variation = 0.5 * (p - log_q.exp()).abs().sum(-1).mean()
        return kl, variation


def main() -> None:
    """Distil until the planned tokens are seen."""
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    (args.work / "distill.pid").write_text(f"{os.getpid()}\n")
    shards, path = args.work / "shards", args.work / "distilled.pt"
    target, _ = load_model(args.work / "target.pt", args.device)
    target.requires_grad_(False)

    state = {"tokens": 0, "step": 0, "seconds": 0.0}
    start = path if path.exists() else args.work / "draft.pt"
    draft, checkpoint = load_model(start, args.device)
    assert draft.config == DRAFT
    optimizers = Optimizers(draft)
    if path.exists():
        optimizers.load_state_dict(checkpoint["optimizers"])
        state = checkpoint["state"]

    samples = shards / "sampled.bin"
    if not samples.exists():
        sample_text(target, shards, samples, args.sampled, args.device)
    sampled, mixture = Windows(samples, CONTEXT, SEED), Mixture(shards, CONTEXT, SEED)
    objective = Objective(target, draft)
    compiled = objective if args.no_compile else torch.compile(objective)
    log = (args.work / "distilled.jsonl").open("a")

    saved, since, running = time.monotonic(), time.monotonic(), []
    while state["tokens"] < args.tokens:
        done, step = state["tokens"] / args.tokens, state["step"]
        own = np.stack([sampled.get(step * SAMPLED_ROWS + i) for i in range(SAMPLED_ROWS)])
        text = mixture.batch(step, MICRO_ROWS - SAMPLED_ROWS)
        windows = torch.cat((text, torch.from_numpy(own.astype(np.int64))))
        with torch.autocast(args.device, dtype=torch.bfloat16):
            kl, variation = compiled(windows[:, :-1].to(args.device))
        loss = kl if done < KL_UNTIL else variation + KL_WEIGHT * kl
        loss.backward()
        nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
        optimizers.step(schedule(done))
        running.append((kl.item(), variation.item()))
        state["tokens"] += BATCH_TOKENS
        state["step"] += 1

        finished = state["tokens"] >= args.tokens
        if state["step"] % 50 == 0 or finished:
            now = time.monotonic()
            state["seconds"] += now - since
            kl_mean, variation_mean = np.mean(running, axis=0)
            row = {
                **state,
                "kl": round(float(kl_mean), 4),
                "alpha": round(1 - float(variation_mean), 4),
                "tokens_per_second": round(len(running) * BATCH_TOKENS / (now - since)),
                "planned": args.tokens,
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


if __name__ == "__main__":
    main()
