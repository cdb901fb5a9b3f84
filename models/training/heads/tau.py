"""Measure tau, the tokens per round of real speculative loops, against the shipped draft.

Every prompt of configs/prompts/{code,docs,edits} runs with rejection sampling, all prompts in
one batch, target and heads in f32. A generation counts up to where a block of four or more
tokens begins to repeat itself: drafts of loops are accepted from any drafter, and at T = 0
nearly every generation ends in one. The intervals resample prompts, paired by prompt.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

from evaluate import HERE, load_folder
from heads.chain import DRAFTERS, CachedTarget
from heads.tap_draft import TapDraft
from heads.train import HEADS
from model import Llama
from sources import PROJECT
from tokenizer import EOS

SETS = "code", "docs", "edits"
LEAST_CYCLE = 4
RESAMPLES = 10_000
SEED = 31


def load_prompts(tokenizer: Tokenizer) -> tuple[list[list[int]], list[str]]:
    """Return the tokens and the set of every prompt."""
    prompts, sets = [], []
    for name in SETS:
        for line in (PROJECT / f"configs/prompts/{name}.jsonl").read_text().splitlines():
            prompts.append(tokenizer.encode(json.loads(line)["prompt"]).ids)
            sets.append(name)
    return prompts, sets


def sampler(temperature: float):
    """Return a function from logits to drawn tokens and the distributions they came from."""

    def draw(logits: Tensor) -> tuple[Tensor, Tensor]:
        if temperature == 0:
            tokens = logits.argmax(-1)
            return tokens, F.one_hot(tokens, logits.shape[-1]).float()
        distribution = (logits / temperature).softmax(-1)
        return torch.multinomial(distribution, 1)[:, 0], distribution

    return draw


def verify(p: Tensor, q: Tensor, drafted: Tensor) -> tuple[Tensor, Tensor]:
    """Reject and resample; return the kept count of each sequence and its new tokens.

    ``p`` (batch, K + 1, vocabulary) and ``q`` (batch, K, vocabulary) are distributions. New
    tokens are the drafted ones with the residual's or the bonus token at the kept count.
    """
    index = torch.arange(len(drafted))
    at = drafted[..., None]
    ratio = p[:, :-1].gather(2, at)[..., 0] / q.gather(2, at)[..., 0]
    kept = (torch.rand(drafted.shape) < ratio).cumprod(dim=1).sum(dim=1)
    padded = F.pad(q, (0, 0, 0, 1))  # after the last drafted token the residual is p itself
    residual = (p[index, kept] - padded[index, kept]).clamp_min(0)
    # Rounding can leave nothing of a residual where p and q agree; then p is as good.
    residual = torch.where(residual.sum(-1, keepdim=True) > 0, residual, p[index, kept])
    new = F.pad(drafted, (0, 1))
    new[index, kept] = torch.multinomial(residual, 1)[:, 0]
    return kept, new


@torch.no_grad()
def generate(target: Llama, head: nn.Module, prompts: list[list[int]], eos: int, args, seed: int):
    """Return every prompt's generated tokens, and its rounds' token counts."""
    torch.manual_seed(seed)
    draw, count = sampler(args.temperature), args.draft
    rows, longest = len(prompts), max(map(len, prompts))
    capacity = longest + args.new + 2 * count + 3
    model = CachedTarget(target, rows, capacity, head.taps)
    drafter = DRAFTERS[type(head)](head, rows, capacity)
    tokens = torch.zeros(rows, capacity, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = torch.tensor(prompt)
    begun = torch.tensor([len(prompt) for prompt in prompts])
    length, live, index = begun.clone(), torch.ones(rows, dtype=torch.bool), torch.arange(rows)

    positions = torch.arange(longest - 1).expand(rows, -1)
    _, features = model.run(tokens[:, : longest - 1], positions)
    drafter.begin(tokens[:, 0])
    drafter.observe(tokens[:, 1:longest], positions, features, begun - 2)
    emitted = []
    while live.any():
        drafted, q = drafter.propose(count, draw)
        last = tokens[index, length - 1][:, None]
        positions = (length - 1)[:, None] + torch.arange(count + 1)
        logits, features = model.run(torch.cat((last, drafted), dim=1), positions)
        p = draw(logits.flatten(0, 1))[1].view_as(logits)
        kept, new = verify(p, q, drafted)
        drafter.observe(new, positions, features, kept)
        before = tokens.gather(1, positions + 1)
        tokens.scatter_(1, positions + 1, torch.where(live[:, None], new, before))
        emitted.append(torch.where(live, kept + 1, 0))
        ended = ((new == eos) & (torch.arange(count + 1) <= kept[:, None])).any(dim=1)
        length = length + emitted[-1]
        live &= ~ended & (length - begun < args.new)
    texts = [tokens[r, begun[r] : length[r]].tolist() for r in range(rows)]
    return texts, torch.stack(emitted, dim=1).numpy()


def loop_start(text: list[int]) -> int:
    """Return where a block of at least LEAST_CYCLE tokens begins to repeat, or the length."""
    tokens, first = np.array(text), len(text)
    for size in range(LEAST_CYCLE, len(tokens) // 2 + 1):
        run = 0
        for end, same in enumerate(tokens[size:] == tokens[:-size], start=size + 1):
            run = run + 1 if same else 0
            if run == size:
                first = min(first, end - size)
                break
    return first


def measure(target: Llama, head: nn.Module, prompts: list[list[int]], eos: int, args) -> np.ndarray:
    """Return tokens and rounds that begin before a loop, and the count of loops, by prompt."""
    sums = np.zeros((len(prompts), 3), dtype=int)
    for seed in range(1 if args.temperature == 0 else args.seeds):
        texts, emitted = generate(target, head, prompts, eos, args, SEED + seed)
        for row, text in enumerate(texts):
            start = loop_start(text)
            begun_at = emitted[row].cumsum() - emitted[row]
            counted = emitted[row][(begun_at < start) & (emitted[row] > 0)]
            sums[row] += counted.sum(), len(counted), start < len(text)
    return sums


def ratio(sums: np.ndarray) -> np.ndarray:
    """Return tokens per round of the last two axes' sums."""
    return sums[..., 0].sum(-1) / sums[..., 1].sum(-1)


def compare(head: np.ndarray, draft: np.ndarray) -> dict:
    """Return the difference in tau, head minus draft, with a bootstrap 95 % interval."""
    chosen = np.random.default_rng(SEED).integers(len(head), size=(RESAMPLES, len(head)))
    differences = ratio(head[chosen]) - ratio(draft[chosen])
    low, high = np.percentile(differences, (2.5, 97.5))
    found = ratio(head) - ratio(draft)
    return {"difference": round(float(found), 3), "low": round(low, 3), "high": round(high, 3)}


def load_head(kind: str, path: Path, target: Llama, draft: Llama) -> nn.Module:
    """Load a trained head."""
    head = HEADS[kind](draft, target.config.hidden_size)
    head.load_state_dict(torch.load(path)["model"])
    return head.eval()


def main() -> None:
    """Print one line of JSON for every drafter, temperature and draft length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heads", nargs="+", choices=HEADS)
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--new", type=int, default=128, help="tokens per generation")
    parser.add_argument("--seeds", type=int, default=4, help="generations per prompt at T = 1")
    parser.add_argument("--temperatures", type=float, nargs="+", default=(0.0, 1.0))
    parser.add_argument("--lengths", type=int, nargs="+", default=(4, 8))
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    folders = {name: HERE.parent / name for name in ("target", "draft")}
    target = load_folder(folders["target"]).requires_grad_(False)
    tokenizer = Tokenizer.from_file(str(folders["target"] / "tokenizer.json"))
    prompts, sets = load_prompts(tokenizer)
    drafters = {"draft": TapDraft(load_folder(folders["draft"]), target.config.hidden_size)}
    for kind in args.heads:
        lent = load_folder(folders["draft"])
        drafters[kind] = load_head(kind, args.work / f"{kind}.pt", target, lent)
    for args.temperature in args.temperatures:
        for args.draft in args.lengths:
            base = None
            for name, head in drafters.items():
                sums = measure(target, head, prompts, tokenizer.token_to_id(EOS), args)
                base = sums if base is None else base
                by_set = {s: round(ratio(sums[np.array(sets) == s]).item(), 3) for s in SETS}
                row = {"drafter": name, "temperature": args.temperature, "draft": args.draft}
                row |= {"tau": round(ratio(sums).item(), 3), "by_set": by_set}
                row |= {"tokens": int(sums[:, 0].sum()), "loops": int(sums[:, 2].sum())}
                row |= compare(sums, base)
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
