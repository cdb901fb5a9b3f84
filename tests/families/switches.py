"""Known-wrong readings of a checkpoint: each must change its logits visibly."""

import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from cases import POSITIONS, has_offset
from switch import Switch, each
from switches_gemma4 import gemma4_switches
from switches_gpt2 import gpt2_switches
from switches_moe import mixture_switches

# What absent keys of yarn mean.
YARN = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}


def switches(config: dict[str, Any], model: PreTrainedModel) -> Iterator[Switch]:
    """Yield the wrong readings that differ from the right one for this configuration."""
    if config["model_type"] == "gpt2":
        yield from gpt2_switches(config)
        return
    yield from rope_switches(config)
    yield from window_switches(config)
    yield from norm_switches(config, model)
    yield from attention_switches(config, model)
    yield from mixture_switches(config, model)
    if config["model_type"] == "gemma4_text":
        yield from gemma4_switches(config)
    yield from other_switches(config, model)


def rope_switches(config: dict[str, Any]) -> Iterator[Switch]:
    """Yield other bases, scalings, widths and layers of the rotary embedding."""
    given = config["rope_parameters"]
    ropes = {"": given} if "rope_theta" in given else given

    def other(layers: str, rope: dict[str, Any]) -> dict[str, Any]:
        return {"rope_parameters": {**given, layers: rope} if layers else rope}

    for layers, rope in ropes.items():
        of = f" of {layers}" if layers else ""
        theta = 1e4 if rope["rope_theta"] != 1e4 else 5e5
        yield Switch(f"rope_theta{of} {theta:g}", other(layers, {**rope, "rope_theta": theta}))
        kind = rope["rope_type"]
        if kind == "proportional":
            whole = {**rope, "partial_rotary_factor": 1.0}
            yield Switch("rope on whole heads", other(layers, whole))
        elif kind != "default":
            names = ("rope_theta", "partial_rotary_factor")
            plain = {key: rope[key] for key in names if key in rope}
            yield Switch(f"no {kind} scaling{of}", other(layers, {"rope_type": "default", **plain}))
        for key in ("attention_factor", "beta_fast", "beta_slow", "truncate"):
            if key in rope and rope[key] != YARN.get(key):
                rest = {k: x for k, x in rope.items() if k != key}
                yield Switch(f"default {key}{of}", other(layers, rest))
        if kind == "longrope":
            factors = {"short_factor": rope["long_factor"], "long_factor": rope["short_factor"]}
            yield Switch("short and long factors swapped", other(layers, {**rope, **factors}))
        if kind in ("yarn", "longrope"):
            one = lambda model: setattr(model.model.rotary_emb, "attention_scaling", 1.0)
            yield Switch("no attention factor", edit=one)
        if rope.get("partial_rotary_factor", 1.0) != 1.0 and kind == "default":
            whole = {**rope, "partial_rotary_factor": 1.0}
            yield Switch("rope on whole heads", other(layers, whole))
    if len(ropes) == 2:
        full, sliding = given["full_attention"], given["sliding_attention"]
        swapped = {"full_attention": sliding, "sliding_attention": full}
        yield Switch("ropes of the layers swapped", {"rope_parameters": swapped})
    if "no_rope_layers" in config:
        flags = config["no_rope_layers"]
        yield Switch("rope on every layer", {"no_rope_layers": [1] * len(flags)})
        yield Switch("no_rope_layers inverted", {"no_rope_layers": [1 - flag for flag in flags]})
    yield Switch("rope on neighbours", functions=neighbours)


def neighbours(model: PreTrainedModel) -> dict[str, Callable]:
    """Return a rotation of entries 2i and 2i + 1 instead of i and i + half."""
    rotate = sys.modules[type(model).__module__].apply_rotary_pos_emb

    def paired(x: Tensor, width: int) -> Tensor:
        order = [*range(0, width, 2), *range(1, width, 2), *range(width, x.shape[-1])]
        return x[..., order]

    def rotated(*args: Tensor, **options: Any) -> Any:
        *states, cos, sin = args
        # gpt-oss has every angle once.
        width = cos.shape[-1] * (2 if model.config.model_type == "gpt_oss" else 1)
        return rotate(*(paired(x, width) for x in states), cos, sin, **options)

    return {"apply_rotary_pos_emb": rotated}


def window_switches(config: dict[str, Any]) -> Iterator[Switch]:
    """Yield other windows, and windows on other layers."""
    window = config.get("sliding_window")
    if window is None:
        return
    for label, other in [
        ("no window", POSITIONS),
        ("window + 1", window + 1),
        ("window - 1", window - 1),
    ]:
        yield Switch(label, {"sliding_window": other})
    layers = config.get("layer_types", [])
    # Layers of Gemma 4 differ in more than the window.
    if len(set(layers)) == 2 and "per_layer_config" not in config:
        kinds = {"full_attention": "sliding_attention", "sliding_attention": "full_attention"}
        yield Switch("windows on the other layers", {"layer_types": [kinds[x] for x in layers]})


def norm_switches(config: dict[str, Any], model: PreTrainedModel) -> Iterator[Switch]:
    """Yield other weights, offsets, places and epsilons of the norms."""
    names = {path.rsplit(".", 1)[-1] for path, _ in model.named_modules() if "norm" in path}
    offset = has_offset(config["model_type"])
    is_gemma4 = config["model_type"] == "gemma4_text"

    def weights(name: str, of: Callable[[Tensor], Tensor]) -> Callable[[PreTrainedModel], None]:
        def edit(model: PreTrainedModel) -> None:
            for norm in each(model, name):
                norm.weight.data = of(norm.weight.data)

        return edit

    def without(name: str) -> Callable[[PreTrainedModel], None]:
        def edit(model: PreTrainedModel) -> None:
            for module in list(model.modules()):
                if isinstance(getattr(module, name, None), nn.Module):
                    setattr(module, name, nn.Identity())

        return edit

    for name in sorted(names):
        plain = torch.zeros_like if offset else torch.ones_like
        if name != "v_norm":
            yield Switch(f"{name} without its weight", edit=weights(name, plain))
        if offset:
            yield Switch(f"{name} without 1 +", edit=weights(name, lambda w: w - 1))
        elif is_gemma4 and name != "v_norm":
            yield Switch(f"{name} with 1 +", edit=weights(name, lambda w: w + 1))
        yield Switch(f"no {name}", edit=without(name))
    if config["rms_norm_eps"] > 1e-4:
        yield Switch("rms_norm_eps 1e-6", {"rms_norm_eps": 1e-6})
    if "q_norm" in names and config["model_type"] != "olmo2":
        yield Switch("q and k norms after rope", functions=norms_after_rope)


def norms_after_rope(model: PreTrainedModel) -> dict[str, Callable]:
    """Take the norms of q and k out of the layers and apply them to what rope returns."""
    rotate = sys.modules[type(model).__module__].apply_rotary_pos_emb
    norms = []
    for attention in each(model, "self_attn"):
        for name in ("q_norm", "k_norm"):
            # Layers of Gemma 4 that share keys have no norm of them.
            if hasattr(attention, name):
                norms.append(getattr(attention, name))
                setattr(attention, name, nn.Identity())
    following = cycle(norms)

    def rotated(*args: Tensor, **options: Any) -> Any:
        found = rotate(*args, **options)
        if isinstance(found, Tensor):
            return next(following)(found)
        return tuple(next(following)(x) for x in found)

    return {"apply_rotary_pos_emb": rotated}


def attention_switches(config: dict[str, Any], model: PreTrainedModel) -> Iterator[Switch]:
    """Yield other scales, caps and biases, and another sharing of key heads."""
    head_dim = model.model.layers[0].self_attn.head_dim
    if config.get("query_pre_attn_scalar", head_dim) != head_dim:
        yield Switch("attention scale of head_dim", {"query_pre_attn_scalar": head_dim})
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if config.get(key) is not None:
            yield Switch(f"no {key}", {key: None})

    def zeroed(name: str) -> Callable[[PreTrainedModel], None]:
        def edit(model: PreTrainedModel) -> None:
            for linear in each(model, name):
                linear.bias.data.zero_()

        return edit

    biased = {path.split(".")[-2] for path, _ in model.named_parameters() if ".bias" in path}
    for name in sorted(biased):
        yield Switch(f"no bias of {name}", edit=zeroed(name))
    if 1 < config["num_key_value_heads"] < config["num_attention_heads"]:
        shared = lambda states, times: states.repeat(1, times, 1, 1)
        modulo = lambda model: {"repeat_kv": shared}
        yield Switch("key head h mod kv heads", functions=modulo)


def other_switches(config: dict[str, Any], model: PreTrainedModel) -> Iterator[Switch]:
    """Yield other activations, embeddings, heads and orders of fused tensors."""
    key = "hidden_activation" if "hidden_activation" in config else "hidden_act"
    if config["model_type"] == "gpt_oss":
        # It has an activation of its own and does not read the key.
        pass
    elif config[key] == "silu":
        yield Switch("gelu_pytorch_tanh", {key: "gelu_pytorch_tanh"})
    else:
        yield Switch("silu", {key: "silu"})

        def erf(model: PreTrainedModel) -> None:
            for module in model.modules():
                if hasattr(module, "act_fn"):
                    module.act_fn = nn.GELU()

        # The two forms of gelu differ by less than 5e-4 in any value.
        yield Switch("gelu of erf", edit=erf, least=1e-4)
    if hasattr(model.model.embed_tokens, "embed_scale"):
        scale = model.model.embed_tokens.embed_scale
        embeddings = lambda model: model.model.embed_tokens
        one = lambda model: embeddings(model).embed_scale.fill_(1.0)
        half = lambda model: embeddings(model).embed_scale.copy_(scale.bfloat16())
        yield Switch("no embedding scale", edit=one)
        yield Switch("embedding scale in bf16", edit=half)
    if not config["tie_word_embeddings"]:

        def tie(model: PreTrainedModel) -> None:
            model.lm_head.weight.data = model.model.embed_tokens.weight.data.clone()

        yield Switch("tied head", edit=tie)
    if config["model_type"] == "phi3":
        yield Switch("up before gate", edit=lambda model: swap(model, "gate_up_proj", 0))
        heads = config["num_attention_heads"] * model.model.layers[0].self_attn.head_dim
        yield Switch("v before k", edit=lambda model: swap(model, "qkv_proj", heads))


def swap(model: PreTrainedModel, name: str, begin: int) -> None:
    """Swap the two halves of the rows from `begin` on."""
    for linear in each(model, name):
        rows = linear.weight.data
        first, second = rows[begin:].chunk(2)
        linear.weight.data = torch.cat([rows[:begin], second, first])
