"""A narrow EAGLE-3 head with normalised taps (EAGLE-3.1's ``fc_norm``) and the whole vocabulary.

Row t joins the embedding of x_{t+1} with a hidden state: of a verified token the fused taps
``f_t``, of a drafted token the output of the row before. It predicts x_{t+2}.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heads.parts import TAPS, Fusion, attend, project
from model import Llama, LlamaConfig, Mlp, RMSNorm


class WideAttention(nn.Module):
    """Grouped-query attention whose queries, keys and values read two joined vectors."""

    def __init__(self, c: LlamaConfig):
        super().__init__()
        self.heads, self.kv_heads = c.num_attention_heads, c.num_key_value_heads
        self.q_proj = nn.Linear(2 * c.hidden_size, self.heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(2 * c.hidden_size, self.kv_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(2 * c.hidden_size, self.kv_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * c.head_dim, c.hidden_size, bias=False)


class WideLayer(nn.Module):
    """EAGLE-3's decoder layer."""

    def __init__(self, c: LlamaConfig):
        super().__init__()
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.hidden_norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = WideAttention(c)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = Mlp(c)

    def join(self, embedding: Tensor, hidden: Tensor) -> Tensor:
        """Return the attention's input: the normalised embedding, then the normalised state."""
        return torch.cat((self.input_layernorm(embedding), self.hidden_norm(hidden)), dim=-1)

    def finish(self, hidden: Tensor, seen: Tensor) -> Tensor:
        """Add what the attention saw, then the feed-forward block."""
        hidden = hidden + self.self_attn.o_proj(seen)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class Eagle3(Fusion):
    """The head, as wide as the draft model, which lends it embedding, head matrix and norm."""

    depths = 5  # steps of the training-time test

    def __init__(self, draft: Llama, target_width: int):
        c = draft.config
        super().__init__(len(TAPS), target_width, c.hidden_size, c.rms_norm_eps)
        self.config = c
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        self.layers = nn.ModuleList([WideLayer(c)])
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.register_buffer("cos", draft.model.cos, persistent=False)
        self.register_buffer("sin", draft.model.sin, persistent=False)
        for matrix in (p for p in self.parameters() if p.ndim == 2):
            nn.init.normal_(matrix, std=0.02)
        lent = draft.model.embed_tokens.weight.detach()
        with torch.no_grad():
            self.embed_tokens.weight.copy_(lent)
            self.lm_head.weight.copy_(lent)
            self.norm.weight.copy_(draft.model.norm.weight)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return next-token logits of rows before the final norm."""
        return self.lm_head(self.norm(hidden))

    def forward(self, ids: Tensor, features: list[Tensor], anchors: Tensor) -> Tensor:
        """Return the rows (batch, anchors, depths, width) of drafts that begin at ``anchors``.

        An anchor is the position of the last committed token, whose row is the one before it.
        All verified rows are computed at once; then the drafts grow by one row each, on the
        head's own outputs (training-time test).
        """
        layer, time = self.layers[0], ids.shape[1] - 1
        hidden = self.fuse([x[:, :-1] for x in features])
        embedded = self.embed_tokens(ids).to(hidden.dtype)
        rows = torch.arange(time)
        q, k, v = self._project(embedded[:, 1:], hidden, rows)
        hidden = layer.finish(hidden, attend(q, k, v, None))
        hidden, first = hidden[:, anchors - 1], anchors - 1
        found, keys, values = [hidden], k, v
        mask, own = first[:, None] >= rows, torch.eye(len(anchors), dtype=torch.bool)
        for step in range(1, self.depths):
            q, k, v = self._project(embedded[:, anchors + step], hidden, first + step)
            keys, values = torch.cat((keys, k), dim=2), torch.cat((values, v), dim=2)
            mask = torch.cat((mask, own), dim=1)
            hidden = layer.finish(hidden, attend(q, keys, values, mask))
            found.append(hidden)
        return torch.stack(found, dim=2)

    def _project(self, embedded: Tensor, hidden: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        """Return queries, keys and values of rows at the given positions."""
        cos, sin = self.cos[rows].to(hidden.dtype), self.sin[rows].to(hidden.dtype)
        layer = self.layers[0]
        return project(layer.self_attn, layer.join(embedded, hidden), cos, sin)
