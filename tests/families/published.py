"""Tensors as published files have them, where transformers writes others."""

import torch
from torch import Generator, Tensor

# As in the configurations of published files.
MXFP4 = {
    "modules_to_not_convert": [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
    ],
    "quant_method": "mxfp4",
}
# A block of 32 numbers has 16 bytes and a scale.
BLOCK = 32
# The exponents of scales plus 127, from the first to the one before the last. With these,
# experts read numbers that reach the limit of 7 and return ones of about 2.
EXPONENTS = {"gate_up_proj": (120, 126), "down_proj": (118, 123)}


def mxfp4_experts(tensors: dict[str, Tensor], generator: Generator) -> None:
    """Replace the matrices of experts, `[experts, inputs, outputs]`, by random blocks."""
    draw = lambda begin, end, size: torch.randint(
        begin, end, size, dtype=torch.uint8, generator=generator
    )
    for name in sorted(tensors):
        exponents = EXPONENTS.get(name.split(".")[-1])
        if exponents is None:
            continue
        experts, inputs, outputs = tensors.pop(name).shape
        blocks = (experts, outputs, inputs // BLOCK)
        tensors[f"{name}_blocks"] = draw(0, 256, (*blocks, BLOCK // 2))
        tensors[f"{name}_scales"] = draw(*exponents, blocks)


def gpt2_names(tensors: dict[str, Tensor], generator: Generator) -> None:
    """Leave out the prefix of the names, and add the causal masks that were stored, too."""
    for name in sorted(tensors):
        tensors[name.removeprefix("transformer.")] = tensors.pop(name)
    embeddings = tensors["wpe.weight"]
    mask = embeddings.new_ones(2 * [len(embeddings)]).tril()[None, None]
    for name in sorted(tensors):
        if name.endswith("attn.c_attn.weight"):
            tensors[name.replace("c_attn.weight", "bias")] = mask.clone()


def gemma4_shared(tensors: dict[str, Tensor], generator: Generator) -> None:
    """Add tensors of keys and values to the layers that take those of others.

    They are there in the first published files, and nothing reads them.
    """
    layers = {".".join(name.split(".")[:4]) for name in tensors if ".self_attn." in name}
    keys = [layer for layer in sorted(layers) if f"{layer}.k_proj.weight" in tensors]
    for layer in sorted(layers.difference(keys)):
        width = len(tensors[f"{layer}.q_norm.weight"])
        like = next(key for key in keys if len(tensors[f"{key}.q_norm.weight"]) == width)
        for part in ("k_norm", "k_proj", "v_proj"):
            there = tensors[f"{like}.{part}.weight"]
            noise = torch.randn(there.shape, generator=generator)
            tensors[f"{layer}.{part}.weight"] = noise.to(there.dtype)
