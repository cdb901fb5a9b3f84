"""A narrow DSpark block drafter, anchor-first, with a vanilla Markov head and a confidence head.

A block behind the anchor x_a has B rows: the embedding of x_a, then B - 1 mask tokens, at the
positions a ... a + B - 1. They see each other and, before the anchor, keys and values of the
context ``hidden_norm(fc · concat_i h[k_i])``; the context passes through no layer. Row k drafts
x_{a+1+k}: its logits are ``lm_head · y_k + markov_w2 · markov_w1[x_{a+k}]``. Embedding and head
matrix are the block drafter's own, since it is narrower than the target.
"""

import torch
from torch import Tensor, nn

from heads.parts import TAPS, attend, draw, rotations, split_heads
from model import Attention, Layer, Llama, LlamaConfig, RMSNorm, rotate

BLOCK, RANK, LAYERS = 8, 32, 2
MASK = 126  # of the embedded vocabulary: the byte 0xC0, which no UTF-8 text has


class NormedAttention(Attention):
    """Grouped-query attention with norms of queries and keys, as in Qwen3."""

    def __init__(self, c: LlamaConfig):
        super().__init__(c)
        self.q_norm, self.k_norm = (RMSNorm(c.head_dim, c.rms_norm_eps) for _ in range(2))

    def queries(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        """Return rotated queries (batch, heads, rows, dim)."""
        return rotate(self.q_norm(split_heads(self.q_proj(x), self.heads)), *rotation)

    def held(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return rotated keys, and values (batch, key heads, rows, dim)."""
        keys = self.k_norm(split_heads(self.k_proj(x), self.kv_heads))
        return rotate(keys, *rotation), split_heads(self.v_proj(x), self.kv_heads)


class BlockLayer(Layer):
    """One layer of the block."""

    def __init__(self, c: LlamaConfig):
        super().__init__(c)
        self.self_attn = NormedAttention(c)


class Markov(nn.Module):
    """What the token before a row adds to the row's logits, at a low rank."""

    def __init__(self, vocabulary: int, rank: int):
        super().__init__()
        self.markov_w1 = nn.Embedding(vocabulary, rank)
        self.markov_w2 = nn.Linear(rank, vocabulary, bias=False)


class Confidence(nn.Module):
    """The logit of a row's acceptance."""

    def __init__(self, width: int):
        super().__init__()
        self.proj = nn.Linear(width, 1)


class DSpark(nn.Module):
    """The head, as wide as the draft model, which lends it embedding, head matrix and norm."""

    depths = BLOCK

    def __init__(
        self, draft: Llama, target_width: int, taps: tuple[int, ...] = TAPS, mask: int = MASK
    ):
        super().__init__()
        c = draft.config
        self.config, self.taps, self.mask = c, taps, mask
        self.fc = nn.Linear(len(taps) * target_width, c.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(BlockLayer(c) for _ in range(LAYERS))
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        self.markov_head = Markov(c.vocab_size, RANK)
        self.confidence_head = Confidence(c.hidden_size + RANK)
        self.register_buffer("cos", draft.model.cos, persistent=False)
        self.register_buffer("sin", draft.model.sin, persistent=False)
        self.register_buffer("scale", torch.ones(len(taps) * target_width))
        for matrix in (p for p in self.parameters() if p.ndim == 2):
            nn.init.normal_(matrix, std=0.02)
        lent = draft.model.embed_tokens.weight.detach()
        with torch.no_grad():
            self.embed_tokens.weight.copy_(lent)
            self.lm_head.weight.copy_(lent)
            self.norm.weight.copy_(draft.model.norm.weight)

    @torch.no_grad()
    def begin(self, features: list[Tensor]) -> None:
        """Give every dimension of the taps unit power in training.

        A few dimensions of the residual stream are far larger than the others and would take most
        of every gradient of ``fc``. The layout has no norm there, so the export multiplies ``fc``.
        """
        power = torch.cat(features, dim=-1).float().square().mean(dim=(0, 1))
        self.scale.copy_(torch.rsqrt(power + 1e-4))

    def fuse(self, features: list[Tensor]) -> Tensor:
        """Map one (batch, time, target width) tensor per tap to context (batch, time, width)."""
        joined = torch.cat(features, dim=-1)
        return self.hidden_norm(self.fc(joined * self.scale.to(joined.dtype)))

    def context(self, features: list[Tensor], rotation) -> list[tuple[Tensor, Tensor]]:
        """Return the keys and values that verified tokens give to each layer."""
        fused = self.fuse(features)
        return [layer.self_attn.held(fused, rotation) for layer in self.layers]

    def block(self, tokens: Tensor, rotation, held, mask: Tensor) -> Tensor:
        """Return normalised rows (batch, rows, width) of blocks that begin with ``tokens``.

        ``tokens`` (batch, blocks) are followed by masks; ``mask`` (…, rows, context + rows) says
        what every row sees.
        """
        ids = torch.full((*tokens.shape, BLOCK), self.mask)
        ids[..., 0] = tokens
        x = self.embed_tokens(ids.flatten(1)).to(held[0][0].dtype)
        for layer, context in zip(self.layers, held):
            normed = layer.input_layernorm(x)
            own = layer.self_attn.held(normed, rotation)
            keys, values = (torch.cat(pair, dim=2) for pair in zip(context, own))
            seen = attend(layer.self_attn.queries(normed, rotation), keys, values, mask)
            x = x + layer.self_attn.o_proj(seen)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.norm(x)

    def after(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """Join rows with what the Markov head reads of the token before each."""
        return torch.cat((rows, self.markov_head.markov_w1(tokens).to(rows.dtype)), dim=-1)

    def logits(self, joined: Tensor) -> Tensor:
        """Return next-token logits of joined rows."""
        rows, before = joined.split((self.config.hidden_size, RANK), dim=-1)
        return self.lm_head(rows) + self.markov_head.markov_w2(before)

    def confidence(self, joined: Tensor) -> Tensor:
        """Return the logit of acceptance of joined rows."""
        return self.confidence_head.proj(joined)[..., 0]

    def forward(
        self, ids: Tensor, features: list[Tensor], anchors: Tensor, uniforms: Tensor | None = None
    ) -> tuple[None, Tensor, Tensor]:
        """Return no verified rows, joined rows (batch, anchors, BLOCK, width + RANK), and tokens.

        An anchor is the position of a last committed token. The tokens (batch, anchors,
        BLOCK - 1) of the drafts are the text's or, with ``uniforms`` of that shape, drawn.
        """
        places = (anchors[:, None] + torch.arange(BLOCK)).flatten()
        owner = torch.arange(len(anchors)).repeat_interleave(BLOCK)
        before = anchors[owner][:, None] > torch.arange(ids.shape[1])
        mask = torch.cat((before, owner[:, None] == owner), dim=1)
        like = features[0]
        held = self.context(features, rotations(self, torch.arange(ids.shape[1]), like))
        rows = self.block(ids[:, anchors], rotations(self, places, like), held, mask).unflatten(1, (-1, BLOCK))
        tokens = [ids[:, anchors]]
        for step in range(1, BLOCK):
            if uniforms is None:
                tokens.append(ids[:, anchors + step])
            else:
                logits = self.logits(self.after(rows[:, :, step - 1], tokens[-1]))
                tokens.append(draw(logits, uniforms[:, :, step - 1]))
        drawn = torch.stack(tokens, dim=2)
        return None, self.after(rows, drawn), drawn[:, :, 1:]
