"""Known-wrong readings of gpt-oss: of its sinks, its activation and its packed experts."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.integrations import mxfp4

from switch import Switch, each

FP4 = mxfp4.FP4_VALUES


def gpt_oss_switches(config: dict[str, Any]) -> Iterator[Switch]:
    """Yield other sinks, limits and biases, and other orders of rows and of bytes."""
    yield Switch("no sinks", edit=sinks(lambda sink, scale: torch.full_like(sink, -math.inf)))
    yield Switch("sinks of 0", edit=sinks(lambda sink, scale: torch.zeros_like(sink)))
    yield Switch("sinks times the attention scale", edit=sinks(lambda sink, scale: sink * scale))
    yield from activation_switches(config)
    yield Switch("gate and up in halves", edit=reordered(lambda rows: rows.chunk(2, -1)))
    yield Switch(
        "up before gate in experts", edit=reordered(lambda rows: (rows[..., 1::2], rows[..., ::2]))
    )
    for name in ("gate_up_proj", "down_proj"):
        yield Switch(f"no bias of {name} of experts", edit=partial(unbiased, name=name))
    yield Switch("bias of down_proj without weights", edit=bias_unweighted)
    if "quantization_config" in config:
        yield from packing_switches()


def sinks(of: Callable[[Tensor, float], Tensor]) -> Callable[[PreTrainedModel], None]:
    """Return an edit that makes other sinks of them and of the attention scale."""

    def edit(model: PreTrainedModel) -> None:
        for attention in each(model, "self_attn"):
            attention.sinks.data = of(attention.sinks.data, attention.scaling)

    return edit


def activation_switches(config: dict[str, Any]) -> Iterator[Switch]:
    """Yield other limits and other gates."""
    yield Switch("no swiglu_limit", {"swiglu_limit": math.inf})
    defaults = {"swiglu_limit": 7.0, "swiglu_alpha": 1.702}
    for key, value in {**defaults, "swiglu_alpha of silu": 1.0}.items():
        name = key.split()[0]
        if config[name] != value:
            yield Switch(f"{name} {value:g}", {name: value})
    yield Switch("up without 1 +", edit=gated(lambda up, glu: up * glu))
    if config["swiglu_limit"] < 5:
        # The gate of a lower number is nearly 0.
        yield Switch("gate limited from below, too", edit=gated(least_gate=True))
    yield Switch("up limited from above alone", edit=gated(least_up=False))


def gated(
    product: Callable[[Tensor, Tensor], Tensor] = lambda up, glu: (up + 1) * glu,
    least_gate: bool = False,
    least_up: bool = True,
) -> Callable[[PreTrainedModel], None]:
    """Return an edit of the activation: another product, other limits from below."""

    def other(experts: nn.Module) -> Callable[[Tensor], Tensor]:
        limit = experts.limit

        def apply(rows: Tensor) -> Tensor:
            gate = rows[..., ::2].clamp(-limit if least_gate else None, limit)
            up = rows[..., 1::2].clamp(-limit if least_up else None, limit)
            return product(up, gate * torch.sigmoid(gate * experts.alpha))

        return apply

    def edit(model: PreTrainedModel) -> None:
        for experts in each(model, "experts"):
            experts._apply_gate = other(experts)

    return edit


def reordered(
    of: Callable[[Tensor], tuple[Tensor, ...]],
) -> Callable[[PreTrainedModel], None]:
    """Return an edit that takes gates and ups from elsewhere among the outputs."""

    def edit(model: PreTrainedModel) -> None:
        for experts in each(model, "experts"):
            for tensor in (experts.gate_up_proj, experts.gate_up_proj_bias):
                tensor.data = torch.stack(of(tensor.data), -1).flatten(-2)

    return edit


def unbiased(model: PreTrainedModel, name: str) -> None:
    """Set one of the two biases of all experts to 0."""
    for experts in each(model, "experts"):
        getattr(experts, f"{name}_bias").data.zero_()


def bias_unweighted(model: PreTrainedModel) -> None:
    """Add the biases of the chosen experts' outputs as they are."""

    def other(forward: Callable, bias: Tensor) -> Callable:
        def biased(hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
            rest = (1 - weights)[..., None] * bias[chosen]
            return forward(hidden, chosen, weights) + rest.sum(1)

        return biased

    for experts in each(model, "experts"):
        experts.forward = other(experts.forward, experts.down_proj_bias)


def packing_switches() -> Iterator[Switch]:
    """Yield other meanings of the bytes of blocks and scales."""

    def values(of: Callable[[int, float], float]) -> Callable[[], AbstractContextManager]:
        table = [of(code, value) for code, value in enumerate(FP4)]
        return lambda: patch.object(mxfp4, "FP4_VALUES", table)

    def matrices(of: Callable[[Tensor], Tensor]) -> Callable[[PreTrainedModel], None]:
        def edit(model: PreTrainedModel) -> None:
            for experts in each(model, "experts"):
                for matrix in (experts.gate_up_proj, experts.down_proj):
                    matrix.data = of(matrix.data)

        return edit

    swapped = lambda matrix: matrix.unflatten(1, (-1, 2)).flip(2).flatten(1, 2)
    halves = lambda matrix: matrix.unflatten(1, (-1, 16, 2)).transpose(2, 3).flatten(1, 3)
    yield Switch("high half of a byte first", edit=matrices(swapped))
    yield Switch("low halves of a block before the high ones", edit=matrices(halves))
    yield Switch("exponents less 128", edit=matrices(lambda matrix: matrix / 2))
    whole = lambda code, value: math.copysign(code % 8 / 2, value)
    yield Switch("numbers of 4 bits as integers", loading=values(whole))
    yield Switch("no sign in numbers of 4 bits", loading=values(lambda code, value: abs(value)))
