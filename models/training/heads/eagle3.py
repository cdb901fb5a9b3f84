"""A narrow EAGLE-3 head with normalised taps (EAGLE-3.1's ``fc_norm``) and the whole vocabulary.

Row t joins the embedding of x_{t+1} with a hidden state: of a verified token the fused taps
``f_t``, of a drafted token the output of the row before. It predicts x_{t+2}.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heads.parts import TAPS, Fusion, attend, draw, project, rotations
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

    fc_std = 0.02
    depths = 5  # steps of the training-time test

    def __init__(self, draft: Llama, target_width: int, taps: tuple[int, ...] = TAPS):
        c = draft.config
        super().__init__(taps, target_width, c.hidden_size, c.rms_norm_eps)
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

    def forward(
        self, ids: Tensor, features: list[Tensor], anchors: Tensor, uniforms: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the verified rows (batch, time, width), and drafts behind ``anchors``.

        An anchor is the position of a last committed token; its row, whose feature is that of
        the token before, stands at the anchor's place, and the first place is void. Drafted rows
        (batch, anchors, depths - 1, width) grow one at a time, on the head's own outputs
        (training-time test). Their tokens (batch, anchors, depths - 1) are the text's or, with
        ``uniforms`` of that shape, drawn.
        """
        layer, rows = self.layers[0], torch.arange(ids.shape[1] - 1)
        hidden = self.fuse([x[:, :-1] for x in features])
        q, keys, values = self._project(ids[:, 1:], hidden, rows)
        verified = layer.finish(hidden, attend(q, keys, values, None))
        first, own = anchors - 1, torch.eye(len(anchors), dtype=torch.bool)
        hidden, mask = verified[:, first], first[:, None] >= rows
        drafted, tokens = [], []
        for step in range(1, self.depths):
            if uniforms is None:
                tokens.append(ids[:, anchors + step])
            else:
                tokens.append(draw(self.logits(hidden), uniforms[:, :, step - 1]))
            q, k, v = self._project(tokens[-1], hidden, first + step)
            keys, values = torch.cat((keys, k), dim=2), torch.cat((values, v), dim=2)
            mask = torch.cat((mask, own), dim=1)
            hidden = layer.finish(hidden, attend(q, keys, values, mask))
            drafted.append(hidden)
        stacked = torch.stack(drafted, dim=2), torch.stack(tokens, dim=2)
        return F.pad(verified, (0, 0, 1, 0)), *stacked

    def _project(self, ids: Tensor, hidden: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        """Return queries, keys and values of rows at the given positions."""
        layer = self.layers[0]
        joined = layer.join(self.embed_tokens(ids).to(hidden.dtype), hidden)
        return project(layer.self_attn, joined, *rotations(self, rows, hidden))
