"""Known-wrong readings of Gemma 4: of its heads, shared keys and inputs per layer."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from switch import Switch, each


def gemma4_switches(config: dict[str, Any]) -> Iterator[Switch]:
    """Yield the wrong readings of what no other family has."""
    yield Switch("attention scale of head_dim", edit=scaled)
    yield Switch("windows on all layers", functions=partial(masked, full="sliding_window_causal"))
    swapped = partial(masked, full="sliding_window_causal", sliding="causal")
    yield Switch("windows on the other layers", functions=swapped)
    yield Switch("rotated entries next to each other", functions=side_by_side)
    yield Switch("no layer_scalar", edit=unscaled_layers)
    if config["attention_k_eq_v"]:
        yield Switch("values of keys after their norm", edit=values_of_normed_keys)
    if config["num_kv_shared_layers"]:
        yield Switch("keys and values of the first layer of a kind", edit=first_of_kind)
    if config["hidden_size_per_layer_input"]:
        yield from input_switches()


def scaled(model: PreTrainedModel) -> None:
    """Divide scores by the root of the width of heads."""
    for attention in each(model, "self_attn"):
        attention.scaling = attention.head_dim**-0.5


def masked(
    model: PreTrainedModel, full: str = "causal", sliding: str = "sliding_window_causal"
) -> dict[str, Callable]:
    """Return other masks for the two kinds of layers."""
    module = sys.modules[type(model).__module__]
    return {
        "create_causal_mask": getattr(module, f"create_{full}_mask"),
        "create_sliding_window_causal_mask": getattr(module, f"create_{sliding}_mask"),
    }


def side_by_side(model: PreTrainedModel) -> dict[str, Callable]:
    """Return a rotation of the first entries of heads among themselves.

    Of the layers with a part of their heads rotated, entries i and i + width / 2 are pairs.
    """
    rotate = sys.modules[type(model).__module__].apply_rotary_pos_emb
    rotary = model.model.rotary_emb
    angles = int((rotary.full_attention_inv_freq != 0).sum())
    width = 2 * len(rotary.full_attention_inv_freq)
    rest = [*range(2 * angles, width)]
    half = len(rest) // 2
    order = [*range(angles), *rest[:half], *range(angles, 2 * angles), *rest[half:]]

    def rotated(x: Tensor, cos: Tensor, sin: Tensor, **options: Any) -> Tensor:
        x = x[..., order] if x.shape[-1] == width else x
        return rotate(x, cos, sin, **options)

    return {"apply_rotary_pos_emb": rotated}


def unscaled_layers(model: PreTrainedModel) -> None:
    """Leave out the number that every layer multiplies its output by."""
    for layer in model.model.layers:
        layer.layer_scalar.fill_(1.0)


def values_of_normed_keys(model: PreTrainedModel) -> None:
    """Take values from keys after their norm and not from the product."""
    for attention in each(model, "self_attn"):
        if attention.v_proj is None:
            attention.v_norm = nn.Sequential(attention.k_norm, attention.v_norm)


def first_of_kind(model: PreTrainedModel) -> None:
    """Share the keys of the first layer of each kind and not of the last one."""
    seen: set[str] = set()
    for attention in each(model, "self_attn"):
        attention.store_full_length_kv = attention.layer_type not in seen
        seen.add(attention.layer_type)


def input_switches() -> Iterator[Switch]:
    """Yield other scales, orders and parts of the inputs per layer."""

    def interleaved(model: PreTrainedModel) -> None:
        layers = len(model.model.layers)
        embeddings = model.model.embed_tokens_per_layer.weight
        embeddings.data = embeddings.data.unflatten(1, (-1, layers)).mT.flatten(1)
        rows = model.model.per_layer_model_projection.weight
        rows.data = rows.data.unflatten(0, (-1, layers)).transpose(0, 1).flatten(0, 1)

    def zeroed(name: str) -> Callable[[PreTrainedModel], None]:
        def edit(model: PreTrainedModel) -> None:
            for module in each(model, name):
                module.weight.data.zero_()

        return edit

    def ungated(model: PreTrainedModel) -> None:
        for layer in model.model.layers:
            layer.act_fn = nn.Identity()

    def scale(name: str, value: float) -> Callable[[PreTrainedModel], None]:
        return lambda model: setattr(model.model, name, value)

    yield Switch("no embeddings per layer", edit=zeroed("embed_tokens_per_layer"))
    yield Switch("no projection per layer", edit=zeroed("per_layer_model_projection"))
    one = lambda model: model.model.embed_tokens_per_layer.embed_scale.fill_(1.0)
    yield Switch("no scale of embeddings per layer", edit=one)
    yield Switch("no scale of the sum per layer", edit=scale("per_layer_input_scale", 1.0))
    unscaled = scale("per_layer_model_projection_scale", 1.0)
    # A norm follows: only its epsilon sees the scale.
    yield Switch("no scale of the projection per layer", edit=unscaled)
    yield Switch("inputs of all layers interleaved", edit=interleaved)
    yield Switch("no activation of the gate per layer", edit=ungated)
