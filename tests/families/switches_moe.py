"""Known-wrong readings of layers with several experts."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from reference import routers
from switch import Switch, each
from switches_gpt_oss import gpt_oss_switches


def mixture_switches(config: dict[str, Any], model: PreTrainedModel) -> Iterator[Switch]:
    """Yield other choices, weights and orders of the experts."""
    if not routers(model):
        return
    used = config["num_experts_per_tok"]
    for other in (used - 1, used + 1):
        yield Switch(f"{other} of the experts", {"num_experts_per_tok": other})
    if "norm_topk_prob" in config:
        other = not config["norm_topk_prob"]
        yield Switch(f"norm_topk_prob {str(other).lower()}", {"norm_topk_prob": other})
    else:
        yield Switch("softmax over all experts", edit=rerouted(of_all))
    yield Switch("sigmoid in place of softmax", edit=rerouted(of_each))
    yield Switch("experts weighted alike", edit=rerouted(alike))
    yield Switch("weights before the experts", edit=weights_before)
    yield Switch("each expert the next one", edit=next_expert)
    if config["model_type"] == "gpt_oss":
        yield from gpt_oss_switches(config)
    else:
        yield Switch("up before gate in experts", edit=up_before_gate)


def of_all(logits: Tensor, chosen: Tensor) -> Tensor:
    """Return the probabilities among all experts, which add up to less than 1."""
    return logits.softmax(-1).gather(-1, chosen)


def of_each(logits: Tensor, chosen: Tensor) -> Tensor:
    """Return weights that do not depend on the other experts."""
    return logits.sigmoid().gather(-1, chosen)


def alike(logits: Tensor, chosen: Tensor) -> Tensor:
    """Return the same weight for all chosen experts."""
    return torch.full_like(chosen, 1 / chosen.shape[-1], dtype=logits.dtype)


def rerouted(weights: Callable[[Tensor, Tensor], Tensor]) -> Callable[[PreTrainedModel], None]:
    """Return an edit that weights the chosen experts by a function of the routers' logits."""

    def edit(model: PreTrainedModel) -> None:
        for router in routers(model):
            router.forward = other(router.forward)

    def other(forward: Callable) -> Callable:
        def routed(hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            logits, _, chosen = forward(hidden)
            return logits, weights(logits, chosen), chosen

        return routed

    return edit


def weights_before(model: PreTrainedModel) -> None:
    """Scale what experts read and not what they return."""

    def other(forward: Callable) -> Callable:
        def scaled(hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
            slots = zip(chosen.split(1, -1), weights.split(1, -1), strict=True)
            return sum(forward(hidden * w, one, torch.ones_like(w)) for one, w in slots)

        return scaled

    for experts in each(model, "experts"):
        experts.forward = other(experts.forward)


def next_expert(model: PreTrainedModel) -> None:
    """Give every expert the tensors of the one before it."""
    for experts in each(model, "experts"):
        for tensor in experts.parameters():
            tensor.data = tensor.data.roll(1, 0)


def up_before_gate(model: PreTrainedModel) -> None:
    """Swap the two matrices that read the input of an expert."""
    for experts in each(model, "experts"):
        gate, up = experts.gate_up_proj.data.chunk(2, 1)
        experts.gate_up_proj.data = torch.cat([up, gate], 1)
