"""Ancestral sampling with a key-value cache, for distillation and for inspecting a model."""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from checkpoint import load_model
from model import Attention, Llama, rotate


class Cache:
    """Keys and values of one attention block, for a batch of sequences of equal length."""

    def __init__(self, attention: Attention, rows: int, capacity: int, like: Tensor):
        shape = rows, attention.kv_heads, capacity, attention.dim
        self.keys, self.values = like.new_zeros(shape), like.new_zeros(shape)
        self.length = 0

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append and return everything cached so far."""
        end = self.length + k.shape[2]
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


def attend(block: Attention, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache) -> Tensor:
    """Compute Attention.forward, reading earlier positions from the cache."""
    rows, time, _ = x.shape
    group = block.heads // block.kv_heads
    q = block.q_proj(x).view(rows, time, block.heads, block.dim).transpose(1, 2)
    k = block.k_proj(x).view(rows, time, block.kv_heads, block.dim).transpose(1, 2)
    v = block.v_proj(x).view(rows, time, block.kv_heads, block.dim).transpose(1, 2)
    q = rotate(q, cos, sin)
    keys, values = cache.extend(rotate(k, cos, sin), v)
    if time == 1:  # the query heads of one key head stand in for the positions of a sequence
        q = q.view(rows, block.kv_heads, group, block.dim)
        out = F.scaled_dot_product_attention(q, keys, values).reshape(rows, 1, -1)
    else:
        keys, values = (t.repeat_interleave(group, dim=1) for t in (keys, values))
        out = F.scaled_dot_product_attention(q, keys, values, is_causal=True)
        out = out.transpose(1, 2).reshape(rows, time, -1)
    return block.o_proj(out)


@torch.no_grad()
def continuations(model: Llama, prompts: Tensor, new_tokens: int, temperature: float) -> Tensor:
    """Extend every row of ``prompts`` (rows, time > 1) by ``new_tokens`` sampled tokens."""
    decoder = model.model
    rows, time = prompts.shape
    weight = decoder.embed_tokens.weight
    caches = [Cache(l.self_attn, rows, time + new_tokens, weight) for l in decoder.layers]
    found, position = prompts, 0
    for _ in range(new_tokens):
        fresh = found[:, position:]
        x = decoder.embed_tokens(fresh)
        cos, sin = decoder.cos[position : found.shape[1]], decoder.sin[position : found.shape[1]]
        for layer, cache in zip(decoder.layers, caches):
            x = x + attend(layer.self_attn, layer.input_layernorm(x), cos, sin, cache)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        logits = F.linear(decoder.norm(x[:, -1]), weight)
        if temperature == 0:
            drawn = logits.argmax(-1, keepdim=True)
        else:
            drawn = torch.multinomial(torch.softmax(logits / temperature, -1), 1)
        position = found.shape[1]
        found = torch.cat((found, drawn), dim=1)
    return found


def main() -> None:
    """Print continuations of one prompt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("prompt")
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--count", type=int, default=1)
    args = parser.parse_args()
    model, _ = load_model(args.checkpoint, "cpu")
    tokenizer = Tokenizer.from_file(str(args.work / "tokenizer.json"))
    prompts = torch.tensor([tokenizer.encode(args.prompt).ids] * args.count)
    for row in continuations(model, prompts, args.tokens, args.temperature):
        print(tokenizer.decode(row.tolist()))
        print("-" * 72)


if __name__ == "__main__":
    main()
