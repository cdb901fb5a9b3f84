"""Measure the exported pair on held-out crates and write evaluation.json.

The weights are read from the exported bf16 folders and computed in f32, so the numbers hold
for the weights that ship. The result has, for each domain, the loss of both models in nats
per token, the overlap alpha = mean of sum(min(p, q)) at two temperatures, and the greedy
agreement. The mean over the split weights each domain by its share of the split's tokens.
"""

import argparse
import json
import platform
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from corpus import DOMAINS
from data import Windows
from model import Llama, LlamaConfig, weight_bytes_per_token

HERE = Path(__file__).resolve().parent
TEMPERATURES = (1.0, 0.7)
CONTEXT, WINDOWS, ROWS = 512, 128, 8
SEED = 3
LEAST_RATIO = 12
LARGEST_BYTES = 32_000_000


def load_folder(folder: Path) -> Llama:
    """Load an exported folder into f32."""
    config = json.loads((folder / "config.json").read_text())
    shape = LlamaConfig(**{name: config[name] for name in LlamaConfig.__dataclass_fields__})
    model = Llama(shape)
    weights = load_file(folder / "model.safetensors")
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    return model.eval()


def batch_sums(target: Llama, draft: Llama, windows: Tensor) -> dict[str, float]:
    """Return the sums over all positions of a batch."""
    labels = windows[:, 1:].flatten()
    p = target(windows[:, :-1]).flatten(0, 1)
    q = draft(windows[:, :-1]).flatten(0, 1)
    sums = {
        "target_loss": F.cross_entropy(p, labels, reduction="sum").item(),
        "draft_loss": F.cross_entropy(q, labels, reduction="sum").item(),
        "greedy_agreement": (p.argmax(-1) == q.argmax(-1)).sum().item(),
    }
    for temperature in TEMPERATURES:
        both = torch.minimum((p / temperature).softmax(-1), (q / temperature).softmax(-1))
        sums[f"alpha_t{temperature:g}"] = both.sum().item()
    return sums


@torch.no_grad()
def evaluate_domain(target: Llama, draft: Llama, shard: Path) -> dict[str, float]:
    """Return the means over a seeded sample of windows of one shard."""
    windows = Windows(shard, CONTEXT, SEED)
    count = min(WINDOWS, windows.per_epoch) // ROWS * ROWS
    totals: dict[str, float] = {}
    for start in range(0, count, ROWS):
        batch = np.stack([windows.get(start + i) for i in range(ROWS)]).astype(np.int64)
        for name, value in batch_sums(target, draft, torch.from_numpy(batch)).items():
            totals[name] = totals.get(name, 0.0) + value
    positions = count * CONTEXT
    return {"tokens": positions, **{n: round(v / positions, 4) for n, v in totals.items()}}


def shard_shares(shards: Path) -> dict[str, float]:
    """Return each domain's share of the tokens of the test split."""
    sizes = {name: (shards / f"test-{name}.bin").stat().st_size for name in DOMAINS}
    return {name: size / sum(sizes.values()) for name, size in sizes.items()}


def describe(model: Llama, folder: Path) -> dict:
    """Return size and cost of one exported model."""
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "weight_bytes_per_token": weight_bytes_per_token(model.config),
        "folder_bytes": sum(path.stat().st_size for path in folder.iterdir()),
        "shape": model.config.to_dict(),
    }


def main() -> None:
    """Evaluate, check the size limits and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--target", type=Path, default=HERE.parent / "target")
    parser.add_argument("--draft", type=Path, default=HERE.parent / "draft")
    parser.add_argument("--out", type=Path, default=HERE / "evaluation.json")
    args = parser.parse_args()

    target, draft = load_folder(args.target), load_folder(args.draft)
    sizes = {"target": describe(target, args.target), "draft": describe(draft, args.draft)}
    read = [sizes[name]["weight_bytes_per_token"] for name in ("target", "draft")]
    assert read[0] >= LEAST_RATIO * read[1], read
    total_bytes = sum(size["folder_bytes"] for size in sizes.values())
    assert total_bytes <= LARGEST_BYTES, total_bytes

    shards = args.work / "shards"
    domains = {
        name: evaluate_domain(target, draft, shards / f"test-{name}.bin") for name in DOMAINS
    }
    shares = shard_shares(shards)
    mean = {
        key: round(sum(shares[name] * result[key] for name, result in domains.items()), 4)
        for key in domains["code"]
        if key != "tokens"
    }
    result = {
        "split": "test",
        "context": CONTEXT,
        "torch": torch.__version__,
        "machine": platform.machine(),
        "models": sizes,
        "weight_bytes_ratio": round(read[0] / read[1], 3),
        "domains": domains,
        "share_of_split": {name: round(share, 4) for name, share in shares.items()},
        "mean": mean,
    }
    args.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({"domains": domains, "mean": mean}, indent=2))


if __name__ == "__main__":
    main()
