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

from heads.parts import TAPS, Fusion, draft_mask, draw, embed, extend, rotations
from model import Llama


class Rows:
    """The rows of a draft model in training; ``extra`` adds what verified tokens get."""

    depths = 8  # drafted tokens per anchor in training: the longest draft of the experiments

    def logits(self, hidden: Tensor) -> Tensor:
        """Return next-token logits of rows before the final norm."""
        return F.linear(self.model.norm(hidden), self.model.embed_tokens.weight)

    def forward(
        self, ids: Tensor, features: list[Tensor], anchors: Tensor, uniforms: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the verified rows (batch, time, width), and drafts behind ``anchors``.

        An anchor is the position of a last committed token. Drafted rows (batch, anchors,
        depths - 1, width) see the verified rows up to their anchor and the earlier rows of their
        own draft. Their tokens (batch, anchors, depths - 1) are the text's, and one pass computes
        all; or, with ``uniforms`` of that shape, they are drawn one after the other.
        """
        time, steps = ids.shape[1], torch.arange(1, self.depths)
        x = embed(self.model, ids) + self.extra(features)
        rotation = rotations(self.model, torch.arange(time), x)
        states, held = extend(self.model.layers, None, x, rotation)
        verified = states[-1]
        if uniforms is not None:
            return verified, *self._grow(verified, held, anchors, uniforms)
        places = (anchors[:, None] + steps).flatten()
        tokens, rotation = ids[:, places], rotations(self.model, places, x)
        mask = draft_mask(time, anchors, len(steps))
        states, _ = extend(self.model.layers, held, embed(self.model, tokens), rotation, mask)
        shape = len(anchors), -1
        return verified, states[-1].unflatten(1, shape), tokens.unflatten(1, shape)

    def _grow(self, verified, held, anchors: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """Draw drafts token by token; return their rows and tokens."""
        own = torch.eye(len(anchors), dtype=torch.bool)
        mask = anchors[:, None] >= torch.arange(verified.shape[1])
        hidden, drafted, tokens = verified[:, anchors], [], []
        for step in range(1, self.depths):
            tokens.append(draw(self.logits(hidden), uniforms[:, :, step - 1]))
            mask = torch.cat((mask, own), dim=1)
            x = embed(self.model, tokens[-1])
            rotation = rotations(self.model, anchors + step, x)
            states, held = extend(self.model.layers, held, x, rotation, mask)
            hidden = states[-1]
            drafted.append(hidden)
        return torch.stack(drafted, dim=2), torch.stack(tokens, dim=2)


class DraftModel(Rows, nn.Module):
    """A Llama model, which reads nothing of the target."""

    taps = ()

    def __init__(self, draft: Llama):
        super().__init__()
        self.config, self.model = draft.config, draft.model

    def fuse(self, features: list[Tensor]) -> float:
        """Add nothing."""
        return 0.0

    extra = fuse


class TapDraft(Rows, Fusion):
    """A Llama model plus ``fc`` and ``fc_norm``."""

    fc_std = 0.0075  # lets the features in at a third of the embedding's size

    def __init__(self, draft: Llama, target_width: int, taps: tuple[int, ...] = TAPS):
        c = draft.config
        super().__init__(taps, target_width, c.hidden_size, c.rms_norm_eps)
        self.config, self.model = c, draft.model
        nn.init.zeros_(self.fc.weight)

    def extra(self, features: list[Tensor]) -> Tensor:
        """Return the fused features of the token before."""
        return F.pad(self.fuse([x[:, :-1] for x in features]), (0, 0, 1, 0))
