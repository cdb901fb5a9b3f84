"""Train the seed, the target or the draft with cross-entropy; can stop and resume any time.

The target continues from the checkpoint that grow.py made from the seed, including the
seed's token count.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from checkpoint import save
from data import Mixture
from model import SHAPES, Llama
from optim import ADAM_LR, Optimizers, schedule
from team import Team

BATCH_TOKENS = {"seed": 12_288, "target": 12_288, "draft": 4_096}
CPU_MICRO_TOKENS = 2_048
SHORT_CONTEXT, LONG_CONTEXT = 256, 512
LONG_FROM = 0.85
SEED = 7
SAVE_SECONDS = 120
VALIDATION_TOKENS = 65_536


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=SHAPES)
    parser.add_argument("--tokens", type=float, required=True, help="planned training tokens")
    parser.add_argument("--hours", type=float, default=float("inf"), help="end sooner after these")
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--workers", type=int, default=1 if cuda else os.cpu_count())
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


class Objective(nn.Module):
    """Mean cross-entropy of a batch of windows."""

    def __init__(self, model: Llama):
        super().__init__()
        self.model = model

    def forward(self, windows: Tensor, phase: int = 0) -> Tensor:
        """Predict every token of each window except the first."""
        logits = self.model(windows[:, :-1]).flatten(0, 1)
        return F.cross_entropy(logits.float(), windows[:, 1:].flatten()).unsqueeze(0)


@torch.no_grad()
def validate(objective: nn.Module, valid: Mixture, device: str) -> float:
    """Return the loss on a fixed part of the validation split, with the mixture of training."""
    count = VALIDATION_TOKENS // valid.tokens
    total = 0.0
    for index in range(count):
        windows = valid.batch(SHORT_CONTEXT, index).to(device)
        with torch.autocast(device, dtype=torch.bfloat16):
            total += objective(windows).item()
    return total / count


def main() -> None:
    """Train for the planned number of tokens."""
    args = arguments()
    torch.set_num_threads(args.workers)
    torch.manual_seed(SEED)
    (args.work / f"{args.model}.pid").write_text(f"{os.getpid()}\n")
    path = args.work / f"{args.model}.pt"

    model = Llama(SHAPES[args.model]).to(args.device)
    optimizers = Optimizers(model, ADAM_LR[args.model])
    state = {"tokens": 0, "step": 0, "seconds": 0.0, "first": 0}
    state |= {"context": SHORT_CONTEXT, "batches": 0}
    if path.exists():
        checkpoint = torch.load(path, map_location=args.device)
        model.load_state_dict(checkpoint["model"])
        if "optimizers" in checkpoint:
            optimizers.load_state_dict(checkpoint["optimizers"])
        state = checkpoint["state"]
    batch_tokens = BATCH_TOKENS[args.model]
    micro_tokens = CPU_MICRO_TOKENS if args.device == "cpu" else batch_tokens
    micro = batch_tokens // micro_tokens
    mixture = Mixture(args.work / "shards", micro_tokens, SEED)
    valid = Mixture(args.work / "shards", micro_tokens, SEED, split="valid")
    team = Team(Objective(model), mixture, args.workers, 1, args.device, not args.no_compile)
    log = (args.work / f"{args.model}.jsonl").open("a")

    saved, since, running = time.monotonic(), time.monotonic(), []
    done = 0.0
    while done < 1.0:
        seconds = state["seconds"] + time.monotonic() - since
        share = (state["tokens"] - state["first"]) / (args.tokens - state["first"])
        done = max(share, seconds / (3600 * args.hours))
        if done >= LONG_FROM and state["context"] != LONG_CONTEXT:
            state |= {"context": LONG_CONTEXT, "batches": 0}
        running += team.gradients(state["context"], state["batches"], micro)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizers.step(schedule(done))
        state["tokens"] += batch_tokens
        state["batches"] += micro
        state["step"] += 1

        finished = done >= 1.0
        if state["step"] % 20 == 0 or finished:
            now = time.monotonic()
            state["seconds"] += now - since
            row = {
                **state,
                "loss": round(sum(running) / len(running), 4),
                "tokens_per_second": round(len(running) * batch_tokens / (now - since)),
                "done": round(done, 4),
            }
            if state["step"] % 200 == 0 or finished:
                row["validation"] = round(validate(team.objective, valid, args.device), 4)
            print(json.dumps(row), file=log, flush=True)
            since, running = time.monotonic(), []
        if finished or time.monotonic() - saved > SAVE_SECONDS:
            save(
                path,
                {
                    "model": model.state_dict(),
                    "optimizers": optimizers.state_dict(),
                    "state": state,
                    "shape": model.config.to_dict(),
                },
            )
            saved = time.monotonic()
    team.close()


if __name__ == "__main__":
    main()
