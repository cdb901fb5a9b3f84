"""Grow the target from the trained seed by adding layers that initially change nothing.

Each of the first layers is followed by a copy of itself whose two output projections are
zero, so the loss continues from the end of the seed's training (as in "progressive
stacking", Gong et al. 2019, but preserving the function, as in Net2Net, Chen et al. 2016).
"""

import argparse
from pathlib import Path

import torch

from checkpoint import load_model, save
from model import SHAPES, Llama

OUTPUTS = "self_attn.o_proj.weight", "mlp.down_proj.weight"


def grown(seed: Llama, target: Llama) -> dict[str, torch.Tensor]:
    """Return the weights of ``target`` that compute the function of ``seed``."""
    weights = {n: w for n, w in seed.state_dict().items() if ".layers." not in n}
    added = target.config.num_hidden_layers - seed.config.num_hidden_layers
    place = 0
    for index, layer in enumerate(seed.model.layers):
        for copy in range(1 + (index < added)):
            for name, weight in layer.state_dict().items():
                silent = copy == 1 and name in OUTPUTS
                value = torch.zeros_like(weight) if silent else weight.clone()
                weights[f"model.layers.{place}.{name}"] = value
            place += 1
    return weights


def main() -> None:
    """Write ``target.pt``, from which train.py continues."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("work"))
    args = parser.parse_args()

    seed, checkpoint = load_model(args.work / "seed.pt", "cpu")
    target = Llama(SHAPES["target"])
    target.load_state_dict(grown(seed, target))
    ids = torch.arange(64).unsqueeze(0)
    assert torch.equal(target(ids), seed(ids)), "growing must not change the function"
    state = checkpoint["state"]
    state |= {"first": state["tokens"], "step": 0, "seconds": 0.0}
    content = {"model": target.state_dict(), "state": state, "shape": target.config.to_dict()}
    save(args.work / "target.pt", content)


if __name__ == "__main__":
    main()
