"""The drafters of the protocol at their start, and their optimisers."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from heads.dspark import DSpark
from heads.eagle3 import Eagle3
from heads.tap_draft import DraftModel, TapDraft
from model import Llama
from optim import Muon, Optimizers
from protocol.grid import Grid, Group

HEADS = {"tap": TapDraft, "eagle3": Eagle3, "dspark": DSpark}
DEPTHS = 8  # drafted tokens per anchor, of every drafter
FC_STD = 0.02
FAINT = 0.1
MUON_LR, ADAM_LR = 0.02, 3e-3  # times the factor of the grid


def new_drafter(
    kind: str, grid: Grid, group: Group, shipped: Llama, features: list[Tensor]
) -> nn.Module:
    """Return an untrained drafter of the shipped draft's width.

    Layers begin at random. With the start ``lent``, embedding and head matrix begin as the shipped
    draft's, and the final norm as a tenth of its own: behind random layers the whole norm gives
    distributions that are certain and wrong. ``features`` are taps of some text, for their scale.
    """
    torch.manual_seed(group.seed)
    draft = Llama(replace(shipped.config))
    if group.start == "lent":
        with torch.no_grad():
            draft.model.embed_tokens.weight.copy_(shipped.model.embed_tokens.weight)
            draft.model.norm.weight.copy_(FAINT * shipped.model.norm.weight)
    if kind == "draft":
        head = DraftModel(draft)
    else:
        mask = {"mask": grid.mask} if kind == "dspark" else {}
        head = HEADS[kind](draft, features[0].shape[-1], grid.taps, **mask)
        head.fc_std = FC_STD
        head.begin(features)
    head.depths = DEPTHS
    return head


class DrafterOptimizers(Optimizers):
    """Muon for ``fc`` and the matrices of the layers, AdamW for the rest."""

    def __init__(self, head: nn.Module, factor: float):
        named = list(head.named_parameters())
        inner = [p for n, p in named if p.ndim == 2 and (n == "fc.weight" or "layers." in n)]
        chosen = set(inner)
        outer = [p for _, p in named if p not in chosen]
        muon, adam = factor * MUON_LR, factor * ADAM_LR
        self.pairs = (
            (Muon(inner, lr=muon), muon),
            (torch.optim.AdamW(outer, lr=adam, betas=(0.9, 0.95), weight_decay=0.0), adam),
        )
