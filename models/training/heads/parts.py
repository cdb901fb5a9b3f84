"""What both heads share: the target's hidden states, their fusion, and attention under a mask."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model import Decoder, RMSNorm, rotate

TAPS = (3, 5, 7)  # layers after which the target's hidden state is read; 7 = before the final norm


Held = list[tuple[Tensor, Tensor]]  # keys and values of every layer


def hidden_states(target: Decoder, ids: Tensor, after: tuple[int, ...] = TAPS) -> list[Tensor]:
    """Return the target's hidden states (batch, time, width) after each layer of ``after``."""
    x = embed(target, ids)
    states, _ = extend(target.layers, None, x, rotations(target, torch.arange(ids.shape[1]), x))
    return [states[number - 1] for number in after]


def embed(decoder: Decoder, ids: Tensor) -> Tensor:
    """Return embeddings, in bf16 under autocast."""
    x = decoder.embed_tokens(ids)
    return x.to(torch.bfloat16) if torch.is_autocast_enabled(ids.device.type) else x


def rotations(module: nn.Module, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and sines (rows, dim) of positions."""
    return module.cos[positions].to(like.dtype), module.sin[positions].to(like.dtype)


def extend(
    layers: nn.ModuleList,
    held: Held | None,
    x: Tensor,
    rotation: tuple[Tensor, Tensor],
    mask: Tensor | None = None,
) -> tuple[list[Tensor], Held]:
    """Run decoder layers over rows that see the held rows and each other, where ``mask`` is true.

    Without a mask the rows are the first ones, and causal. Return the states after each layer,
    and the keys and values of all rows.
    """
    states, kept = [], []
    for number, layer in enumerate(layers):
        q, k, v = project(layer.self_attn, layer.input_layernorm(x), *rotation)
        if held is not None:
            k, v = (torch.cat(pair, dim=2) for pair in zip(held[number], (k, v)))
        x = x + layer.self_attn.o_proj(attend(q, k, v, mask))
        x = x + layer.mlp(layer.post_attention_layernorm(x))
        states.append(x)
        kept.append((k, v))
    return states, kept


def draft_mask(time: int, anchors: Tensor, steps: int) -> Tensor:
    """Return what drafted rows see: of ``time`` verified rows, then of ``steps`` per anchor."""
    owner = torch.arange(len(anchors)).repeat_interleave(steps)
    order = torch.arange(len(owner))
    own = (owner[:, None] == owner) & (order[:, None] >= order)
    return torch.cat((anchors[owner][:, None] >= torch.arange(time), own), dim=1)


@torch.no_grad()
def draw(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Draw tokens at temperature 1, by the inverse of the cumulative distribution."""
    mass = logits.float().softmax(-1).cumsum(-1)
    return (mass < uniforms[..., None] * mass[..., -1:]).sum(-1).clamp_max(mass.shape[-1] - 1)


class Fusion(nn.Module):
    """Normalises every tap, then projects all of them to the head's width.

    The target's residual stream has an rms of about 100 and a head's embedding one below 1, so
    the taps need the norm.
    """

    fc_std: float

    def __init__(self, taps: tuple[int, ...], target_width: int, width: int, eps: float):
        super().__init__()
        self.taps = taps
        self.fc = nn.Linear(len(taps) * target_width, width, bias=False)
        self.fc_norm = nn.ModuleList(RMSNorm(target_width, eps) for _ in taps)

    def fuse(self, features: list[Tensor]) -> Tensor:
        """Map one (batch, time, target width) tensor per tap to (batch, time, width)."""
        return self.fc(torch.cat([n(x) for n, x in zip(self.fc_norm, features)], dim=-1))

    @torch.no_grad()
    def begin(self, features: list[Tensor]) -> None:
        """Start the norms where every dimension of a tap has unit power, and ``fc`` at random.

        A few dimensions of the residual stream are far larger than the others and would take
        most of every gradient of ``fc``.
        """
        nn.init.normal_(self.fc.weight, std=self.fc_std)
        for norm, x in zip(self.fc_norm, features):
            norm.weight.fill_(1.0)
            power = norm(x.float()).square().mean(dim=(0, 1))
            norm.weight.copy_(torch.rsqrt(power + 1e-4))


def split_heads(x: Tensor, count: int) -> Tensor:
    """Turn (batch, time, count * dim) into (batch, count, time, dim)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def project(block: nn.Module, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """Return rotated queries and keys, and values, of one attention block."""
    q = rotate(split_heads(block.q_proj(x), block.heads), cos, sin)
    k = rotate(split_heads(block.k_proj(x), block.kv_heads), cos, sin)
    return q, k, split_heads(block.v_proj(x), block.kv_heads)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attend where ``mask`` is true (without one: causally); return (batch, time, heads * dim)."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
    return out.transpose(1, 2).flatten(2)
