"""Known-wrong readings of GPT-2."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from switch import Switch, each

Edit = Callable[[PreTrainedModel], None]
NORMS = ("ln_1", "ln_2", "ln_f")


def gpt2_switches(config: dict[str, Any]) -> Iterator[Switch]:
    """Yield the wrong readings that differ from the right one for this configuration."""
    yield Switch("no position embeddings", edit=positions(torch.zeros_like))
    yield Switch("positions from 1", edit=positions(lambda rows: rows.roll(-1, 0)))
    for name in NORMS:
        yield from norm_switches(name)
    if config["layer_norm_epsilon"] > 1e-4:
        yield Switch("layer_norm_epsilon 1e-5", {"layer_norm_epsilon": 1e-5})
    for key in ("scale_attn_weights", "scale_attn_by_inverse_layer_idx"):
        yield Switch(f"{key} {str(not config[key]).lower()}", {key: not config[key]})
    yield Switch("v before k", edit=columns([0, 2, 1]))
    yield Switch("q, k and v of each head together", edit=columns(None))
    yield Switch("c_proj of attention transposed", edit=transposed)
    for path in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
        yield Switch(f"no bias of {path}", edit=partial(unbiased, path=path))
    yield Switch("silu", {"activation_function": "silu"})
    # The two forms of gelu differ by less than 5e-4 in any value.
    yield Switch("gelu of erf", {"activation_function": "gelu"}, least=1e-4)


def positions(of: Callable[[Tensor], Tensor]) -> Edit:
    """Return an edit of the position embeddings."""

    def edit(model: PreTrainedModel) -> None:
        embeddings = model.transformer.wpe.weight
        embeddings.data = of(embeddings.data)

    return edit


def norm_switches(name: str) -> Iterator[Switch]:
    """Yield other parts and other moments of the norms with this name."""

    def edited(of: Callable[[nn.LayerNorm], None]) -> Edit:
        def edit(model: PreTrainedModel) -> None:
            for norm in each(model, name):
                of(norm)

        return edit

    def forward(of: Callable[[Tensor, nn.LayerNorm], Tensor]) -> Edit:
        return edited(lambda norm: setattr(norm, "forward", lambda x: of(x, norm)))

    def mean_square(x: Tensor, norm: nn.LayerNorm) -> Tensor:
        square = x.pow(2).mean(-1, keepdim=True)
        return x * (square + norm.eps).rsqrt() * norm.weight + norm.bias

    def unbiased_variance(x: Tensor, norm: nn.LayerNorm) -> Tensor:
        variance, mean = torch.var_mean(x, -1, correction=1, keepdim=True)
        return (x - mean) * (variance + norm.eps).rsqrt() * norm.weight + norm.bias

    yield Switch(f"{name} without its weight", edit=edited(lambda norm: norm.weight.data.fill_(1)))
    yield Switch(f"{name} without its bias", edit=edited(lambda norm: norm.bias.data.zero_()))
    yield Switch(f"{name} of the mean square", edit=forward(mean_square))
    yield Switch(f"{name} of the variance over n - 1", edit=forward(unbiased_variance))
    yield Switch(f"no {name}", edit=forward(lambda x, norm: x))


def columns(order: list[int] | None) -> Edit:
    """Return an edit that takes q, k and v in another order, or head by head."""

    def edit(model: PreTrainedModel) -> None:
        for attention in each(model, "attn"):
            heads = attention.num_heads
            for tensor in attention.c_attn.parameters():
                if order is None:
                    parts = tensor.data.unflatten(-1, (heads, 3, -1)).transpose(-3, -2)
                else:
                    parts = tensor.data.unflatten(-1, (3, heads, -1))[..., order, :, :]
                tensor.data = parts.flatten(-3)

    return edit


def transposed(model: PreTrainedModel) -> None:
    """Read the square matrix of attention as `[outputs, inputs]`."""
    for attention in each(model, "attn"):
        attention.c_proj.weight.data = attention.c_proj.weight.data.T.contiguous()


def unbiased(model: PreTrainedModel, path: str) -> None:
    """Set the biases of one product to 0."""
    for block in model.transformer.h:
        block.get_submodule(path).bias.data.zero_()
