"""The draft model whose rows of verified tokens also get the target's hidden states.

The row of token x_t has the input ``embed(x_t) + fc · concat_i(rms(h[k_i] of x_{t-1}))``: the
feature of the token before it, because the target has not computed x_t itself when x_t is the
last committed token. The row of x_0 and the rows of drafted tokens have the embedding alone.
Everything else is the draft model, and with ``fc = 0`` the head is the draft model.

Training does not begin there: with ``fc = 0`` the layers have no reason to read what they never
see, and ``fc`` only receives the noise of layers that do not read it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heads.parts import TAPS, Fusion, attend, project
from model import Llama

class TapDraft(Fusion):
    """A Llama model plus ``fc`` and ``fc_norm``."""

    fc_std = 0.0075  # lets the features in at a third of the embedding's size
    depths = 8  # drafted tokens per anchor in training: the longest draft of the experiments

    def __init__(self, draft: Llama, target_width: int):
        c = draft.config
        super().__init__(len(TAPS), target_width, c.hidden_size, c.rms_norm_eps)
        self.config, self.model = c, draft.model
        nn.init.zeros_(self.fc.weight)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return next-token logits of rows before the final norm."""
        return F.linear(self.model.norm(hidden), self.model.embed_tokens.weight)

    def forward(
        self, ids: Tensor, features: list[Tensor], anchors: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the verified rows (batch, time, width) and those of drafts behind ``anchors``.

        An anchor is the position of a last committed token. Drafted rows (batch, anchors,
        depths - 1, width) see the verified rows up to their anchor and the earlier rows of their
        own draft; one pass computes all.
        """
        time, steps = ids.shape[1], torch.arange(1, self.depths)
        drafted = (anchors[:, None] + steps).flatten()
        positions = torch.cat((torch.arange(time), drafted))
        mask = draft_mask(time, anchors, len(steps))

        known = self.fuse([x[:, :-1] for x in features])
        x = self.model.embed_tokens(ids[:, positions]).to(known.dtype)
        x = x + F.pad(known, (0, 0, 1, len(drafted)))
        cos, sin = self.model.cos[positions].to(x.dtype), self.model.sin[positions].to(x.dtype)
        for layer in self.model.layers:
            q, k, v = project(layer.self_attn, layer.input_layernorm(x), cos, sin)
            verified = attend(q[:, :, :time], k[:, :, :time], v[:, :, :time], None)
            seen = torch.cat((verified, attend(q[:, :, time:], k, v, mask)), dim=1)
            x = x + layer.self_attn.o_proj(seen)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return x[:, :time], x[:, time:].unflatten(1, (len(anchors), -1))


def draft_mask(time: int, anchors: Tensor, steps: int) -> Tensor:
    """Return what drafted rows see: of ``time`` verified rows, then of ``steps`` per anchor."""
    owner = torch.arange(len(anchors)).repeat_interleave(steps)
    order = torch.arange(len(owner))
    own = (owner[:, None] == owner) & (order[:, None] >= order)
    return torch.cat((anchors[owner][:, None] >= torch.arange(time), own), dim=1)
