"""What a head learns from: windows of text with anchors, and the target's distributions there."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from data import Mixture, Windows
from heads.parts import TAPS, hidden_states
from model import Llama

MICRO_TOKENS = 1024  # per micro-batch: half the split's text, half the target's own
STRIDE = 8  # tokens from one anchor to the next; every second verified row has a loss
KL_WEIGHT = 0.1
DEPTH_WEIGHT = 0.8  # a draft token counts only if all tokens before it are accepted
SEED = 29


class Lessons:
    """Micro-batches of windows and anchors; each depends only on its index."""

    def __init__(self, shards: Path, split: str, seed: int = SEED, tokens: int = MICRO_TOKENS):
        self.own_path, self.seed = shards / f"{split}-sampled.bin", seed
        self.text = Mixture(shards, tokens // 2, seed, split)
        self.own: dict[int, Windows] = {}

    def windows(self, context: int, index: int) -> Tensor:
        """Return ids (windows, context) of micro-batch ``index``."""
        if context not in self.own:
            self.own = {context: Windows(self.own_path, context, self.seed)}
        text = self.text.batch(context, index)
        own = self.own[context].batch(index, len(text)).astype(np.int64)
        return torch.cat((text, torch.from_numpy(own)))[:, :context]

    def batch(self, context: int, index: int) -> tuple[Tensor, Tensor]:
        """Return ids (windows, context) and the anchors' positions in every window."""
        shift = 1 + int(np.random.default_rng([self.seed, index]).integers(STRIDE))
        anchors = shift + STRIDE * torch.arange(context // STRIDE - 1)
        return self.windows(context, index), anchors


class Objective(nn.Module):
    """A head's divergence from the target over the rows of its drafts."""

    def __init__(self, head: nn.Module, target: Llama):
        super().__init__()
        self.head, self.target = head, target.requires_grad_(False)
        weights = DEPTH_WEIGHT ** torch.arange(head.depths)
        self.register_buffer("weights", weights / weights.sum())

    def forward(self, lesson: tuple[Tensor, Tensor], phase: int) -> Tensor:
        """Return the phase's loss, then by depth the mean KL(target ‖ head) and mean overlap."""
        ids, anchors = lesson
        first = anchors[0] % 2 + torch.arange(1, ids.shape[1] - 1, 2)
        later = (anchors[:, None] + torch.arange(1, self.head.depths)).flatten()
        with torch.no_grad():
            features = hidden_states(self.target.model, ids)
            hidden = self.target.model.norm(features[-1][:, torch.cat((first, later))])
            log_p = F.linear(hidden, self.target.model.embed_tokens.weight).float().log_softmax(-1)
        verified, drafted, _ = self.head(ids, features, anchors)
        rows = torch.cat((verified[:, first], drafted.flatten(1, 2)), dim=1)
        log_q = self.head.logits(rows).float().log_softmax(-1)
        p = log_p.exp()
        kl = self._by_depth((p * (log_p - log_q)).sum(-1), len(first))
        variation = self._by_depth(0.5 * (p - log_q.exp()).abs().sum(-1), len(first))
        by_depth = kl if phase == 0 else variation + KL_WEIGHT * kl
        loss = (by_depth * self.weights).sum()
        return torch.cat((loss[None], kl, 1 - variation))

    def _by_depth(self, values: Tensor, first: int) -> Tensor:
        """Average values of rows (batch, rows), of which the ``first`` are verified ones."""
        later = values[:, first:].unflatten(1, (-1, self.head.depths - 1))
        return torch.cat((values[:, :first].mean()[None], later.mean((0, 1))))


assert TAPS[-1] == 7, "the teacher's distributions come from the last tap"
