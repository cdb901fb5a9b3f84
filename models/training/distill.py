"""Distil the draft from the target: forward KL first, then total variation.

The expected share of accepted draft tokens is one minus the total variation between draft
and target, so the last part of the training minimises exactly that. Reads the windows and
distributions that teacher.py stored.
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
from model import Llama
from optim import ADAM_LR, Optimizers, schedule
from team import Team

MICRO_ROWS = 2  # windows per micro-batch
MICRO = 4  # micro-batches per step
KL_UNTIL = 0.5
KL_WEIGHT = 0.1
SEED = 11
SAVE_SECONDS = 60


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=float, required=True, help="planned training tokens")
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--workers", type=int, default=1 if cuda else os.cpu_count())
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


class Lessons:
    """Stored windows with the target's distributions, in a new order every epoch."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.files: list[np.ndarray] = []
        self.epoch, self.order = -1, None

    def batch(self, context: int, index: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return tokens, ids and log-probabilities of micro-batch ``index``."""
        if not self.files:
            names = "tokens", "ids", "logs"
            self.files = [np.load(self.folder / f"{n}.npy", mmap_mode="r") for n in names]
        per_epoch = len(self.files[0]) // MICRO_ROWS
        epoch, place = divmod(index, per_epoch)
        if epoch != self.epoch:
            generator = np.random.default_rng([SEED, epoch])
            self.epoch, self.order = epoch, generator.permutation(len(self.files[0]))
        rows = np.sort(self.order[place * MICRO_ROWS : (place + 1) * MICRO_ROWS])
        tokens, ids, logs = (file[rows, :context] for file in self.files)
        return (
            torch.from_numpy(tokens.astype(np.int64)),
            torch.from_numpy(ids.astype(np.int64)),
            torch.from_numpy(logs.astype(np.float32)),
        )


class Objective(nn.Module):
    """The draft's divergence from the stored distributions, with the tail as one bucket."""

    def __init__(self, draft: Llama):
        super().__init__()
        self.draft = draft

    def forward(self, lesson: tuple[Tensor, Tensor, Tensor], phase: int) -> Tensor:
        """Return the phase's loss, mean KL(target ‖ draft) and mean total variation."""
        tokens, ids, log_p = lesson
        logits = self.draft(tokens).float()
        log_q = logits.gather(-1, ids) - logits.logsumexp(-1, keepdim=True)
        p, q = log_p.exp(), log_q.exp()
        rest_p = (1 - p.sum(-1)).clamp_min(1e-5)
        rest_q = (1 - q.sum(-1)).clamp_min(1e-5)
        kl = ((p * (log_p - log_q)).sum(-1) + rest_p * (rest_p.log() - rest_q.log())).mean()
        variation = 0.5 * ((p - q).abs().sum(-1) + (rest_p - rest_q).abs()).mean()
        loss = kl if phase == 0 else variation + KL_WEIGHT * kl
        return torch.stack((loss, kl, variation))


def main() -> None:
    """Distil for the planned number of tokens."""
    args = arguments()
    torch.set_num_threads(args.workers)
    torch.manual_seed(SEED)
    (args.work / "distill.pid").write_text(f"{os.getpid()}\n")
    path = args.work / "distilled.pt"
    state = {"tokens": 0, "step": 0, "seconds": 0.0}
    start = path if path.exists() else args.work / "draft.pt"
    draft, checkpoint = load_model(start, args.device)
    optimizers = Optimizers(draft, ADAM_LR["draft"])
    if path.exists():
        optimizers.load_state_dict(checkpoint["optimizers"])
        state = checkpoint["state"]
    lessons = Lessons(args.work / "teacher")
    context = np.load(args.work / "teacher" / "tokens.npy", mmap_mode="r").shape[1]
    batch_tokens = MICRO * MICRO_ROWS * context
    team = Team(Objective(draft), lessons, args.workers, 3, args.device, not args.no_compile)
    log = (args.work / "distilled.jsonl").open("a")

    saved, since, running = time.monotonic(), time.monotonic(), []
    finished = False
    while not finished:
        done = state["tokens"] / args.tokens
        phase = 0 if done < KL_UNTIL else 1
        running.append(team.gradients(context, state["step"] * MICRO, MICRO, phase))
        nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
        optimizers.step(schedule(done))
        state["tokens"] += batch_tokens
        state["step"] += 1

        finished = state["tokens"] >= args.tokens
        if state["step"] % 100 == 0 or finished:
            now = time.monotonic()
            state["seconds"] += now - since
            _, kl, variation = np.mean(running, axis=0)
            row = {
                **state,
                "phase": phase,
                "kl": round(float(kl), 4),
                "alpha": round(1 - float(variation), 4),
                "tokens_per_second": round(len(running) * batch_tokens / (now - since)),
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
