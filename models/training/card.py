"""Write the model card ../README.md from the evaluation, the logs and the manifest."""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

from corpus import load_list
from distill import KL_WEIGHT, MICRO, MICRO_ROWS
from model import SHAPES
from optim import ADAM_LR, MOMENTUM, MUON_LR
from teacher import CONTEXT, TOP
from train import BATCH_TOKENS, LONG_CONTEXT, SHORT_CONTEXT

HERE = Path(__file__).resolve().parent
LOGS = ("seed", "target", "draft", "distilled")

CARD = """# The embedded pair

Two small Llama models ship with the project, so that you can try, time and test
speculative decoding on a fresh machine without a download: a **target** model and a
**draft** model that reads 1/{ratio:.0f} of the weight bytes per token. Both are in the Hugging
Face folder format (bf16, tied head) and share one tokenizer, a byte-level BPE of 4096
tokens. The tokenizer's post-processor begins every prompt with `<|bos|>`, and `<|eos|>`
ends a document. The models complete Rust source and its documentation about as well as
models of this size can; they know nothing else and are of no use beyond this project.
A third one, the [tap draft](tap/README.md), is the draft model with hidden states of the target.

`training/card.py` writes this page; every number comes from `training/evaluation.json`,
`training/logs/` and `training/manifest.json`.

## Models

| | target | draft |
|---|---:|---:|
{shape_rows}

## Results on held-out crates

The evaluation uses crates of the test split, windows of {context} tokens, and the exported
bf16 weights computed in f32. Losses are in nats per token; alpha is the mean of
Σ min(p, q) over positions; greedy agreement is the share of positions where both models
prefer the same token.

| domain | tokens | target loss | draft loss | alpha, T = 1 | alpha, T = 0.7 | greedy agreement |
|---|---:|---:|---:|---:|---:|---:|
{result_rows}

## Training

| run | tokens | steps | hours | last training figures |
|---|---:|---:|---:|---|
{run_rows}

Hardware: {hardware}. Hours are wall-clock time; other work ran during the training.

- Seed: a model of the target's shape with {seed_layers} layers, trained to the end of its schedule.
  Target: the seed with {added} more layers, which at first change nothing, trained further; its
  token count includes the seed's.
- Seed, target, and the first training of the draft model use cross-entropy with {batch} tokens
  per step ({draft_batch} for the draft model), three parts code to one part prose, bf16 arithmetic
  and f32 master weights. Windows have {short} tokens at first, then {long}: from {seed_long:,}
  tokens on for the seed, throughout for the target, from {draft_long:,} tokens on for the draft model.
- Matrices of the layers: Muon, learning rate {muon}, momentum {momentum}. Embedding and norms:
  AdamW, learning rate {adam} ({draft_adam} for the draft model), betas 0.9 and 0.95, no weight
  decay. Warm-up over 2 % of the tokens, linear decay to zero over the last 30 %, gradients clipped
  to norm 1. The seed's schedule was lengthened during training (`done` in its log); the
  distillation's was lengthened for a while, before its learning rate fell.
- Distillation: the target's {top} most likely tokens and their probabilities were stored once for
  {taught:,} tokens of training text and of text sampled from the target at temperature 1
  (windows of {taught_context}). The draft model read them repeatedly, {distill_batch} tokens per
  step. The loss is KL(target ‖ draft) for the first {kl_tokens:,} tokens, then total variation +
  {kl_weight} · KL, with the mass outside the stored tokens as one bucket.

## Corpus

The corpus consists of the Rust sources and Markdown of {crates} crates in this project's own
`Cargo.lock`, listed with version, checksum and licence in `training/corpus.json`. It is
split by crate: a crate of the valid or test split contributes nothing to training or to
the tokenizer. Code is `.rs`; prose is `.md` and the text of doc comments. The text is read
at training time and is not part of the repository.

| shard | documents | bytes | tokens | SHA-256 |
|---|---:|---:|---:|---|
{shard_rows}

| crate | version | split | licence |
|---|---|---|---|
{crate_rows}
"""


def rows(lines: list[list]) -> str:
    """Format table rows."""
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def shape_lines(models: dict) -> list[list]:
    """Return the table rows that compare the two models."""
    both = [models["target"], models["draft"]]
    lines = [["parameters", *(f"{m['parameters']:,}" for m in both)]]
    read = "weight bytes read per token"
    lines.append([read, *(f"{m['weight_bytes_per_token']:,}" for m in both)])
    for key in both[0]["shape"]:
        lines.append([key.replace("_", " "), *(m["shape"][key] for m in both)])
    return lines


def result_lines(evaluation: dict) -> list[list]:
    """Return one table row per domain and one for the mean."""
    keys = ("target_loss", "draft_loss", "alpha_t1", "alpha_t0.7", "greedy_agreement")
    lines = [
        [name, f"{result['tokens']:,}", *(f"{result[key]:.3f}" for key in keys)]
        for name, result in evaluation["domains"].items()
    ]
    mean, shares = evaluation["mean"], evaluation["share_of_split"]
    weights = " : ".join(f"{shares[name]:.2f}" for name in evaluation["domains"])
    return lines + [[f"whole split ({weights})", "", *(f"{mean[key]:.3f}" for key in keys)]]


def run_lines(logs: Path) -> list[list]:
    """Return one table row per training run, from the last row of its log."""
    lines = []
    for name in LOGS:
        last = json.loads((logs / f"{name}.jsonl").read_text().splitlines()[-1])
        known = ("loss", "validation", "kl", "alpha")
        figures = ", ".join(f"{key} {last[key]}" for key in known if key in last)
        hours = f"{last['seconds'] / 3600:.2f}"
        lines.append([name, f"{last['tokens']:,}", f"{last['step']:,}", hours, figures])
    return lines


def long_from(log: Path) -> int:
    """Return the number of training tokens after which windows became long."""
    steps = map(json.loads, log.read_text().splitlines())
    return next(row["tokens"] for row in steps if row["context"] == LONG_CONTEXT)


def kl_tokens(log: Path) -> int:
    """Return the number of distillation tokens trained with the first loss (KL)."""
    rows = map(json.loads, log.read_text().splitlines())
    return max(row["tokens"] for row in rows if row["phase"] == 0)


def main() -> None:
    """Copy logs and manifest into this folder and write the card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--hardware", required=True, help="what the models were trained on")
    args = parser.parse_args()

    logs = HERE / "logs"
    logs.mkdir(exist_ok=True)
    for name in LOGS:
        shutil.copyfile(args.work / f"{name}.jsonl", logs / f"{name}.jsonl")
    shutil.copyfile(args.work / "manifest.json", HERE / "manifest.json")
    evaluation = json.loads((HERE / "evaluation.json").read_text())
    manifest = json.loads((HERE / "manifest.json").read_text())
    crates = load_list()
    taught = np.load(args.work / "teacher" / "tokens.npy", mmap_mode="r").size

    shards = [
        [name, f"{s['documents']:,}", f"{s['bytes']:,}", f"{s['tokens']:,}", f"`{s['sha256']}`"]
        for name, s in manifest["shards"].items()
    ]
    listed = [[c["name"], c["version"], c["split"], c["licence"]] for c in crates]
    card = CARD.format(
        ratio=evaluation["weight_bytes_ratio"],
        shape_rows=rows(shape_lines(evaluation["models"])),
        context=evaluation["context"],
        result_rows=rows(result_lines(evaluation)),
        run_rows=rows(run_lines(logs)),
        hardware=args.hardware,
        seed_layers=SHAPES["seed"].num_hidden_layers,
        added=SHAPES["target"].num_hidden_layers - SHAPES["seed"].num_hidden_layers,
        batch=f"{BATCH_TOKENS['target']:,}",
        draft_batch=f"{BATCH_TOKENS['draft']:,}",
        short=SHORT_CONTEXT,
        long=LONG_CONTEXT,
        seed_long=long_from(logs / "seed.jsonl"),
        draft_long=long_from(logs / "draft.jsonl"),
        muon=MUON_LR,
        momentum=MOMENTUM,
        adam=ADAM_LR["target"],
        draft_adam=ADAM_LR["draft"],
        top=TOP,
        taught=taught,
        taught_context=CONTEXT,
        distill_batch=f"{MICRO * MICRO_ROWS * CONTEXT:,}",
        kl_tokens=kl_tokens(logs / "distilled.jsonl"),
        kl_weight=KL_WEIGHT,
        crates=len(crates),
        shard_rows=rows(shards),
        crate_rows=rows(listed),
    )
    (HERE.parent / "README.md").write_text(card)


if __name__ == "__main__":
    main()
