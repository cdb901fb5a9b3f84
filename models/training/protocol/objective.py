"""Losses of drafters against the target, on the text's drafts or on the drafter's own."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heads import lessons
from heads.dspark import DSpark
from heads.lessons import DEPTH_WEIGHT
from heads.parts import Held, draft_mask, draw, embed, extend, rotations
from model import Llama

Lesson = tuple[Tensor, Tensor, Tensor, Tensor]
Taught = tuple[list[Tensor], Tensor, Held]


class Lessons(lessons.Lessons):
    """Micro-batches of windows, anchors and random numbers; each depends only on its index."""

    def __init__(self, shards, split: str, seed: int, context: int, windows: int, anchors: int):
        super().__init__(shards, split, seed, context * windows)
        self.context, self.anchors, self.depths = context, anchors, DSpark.depths

    def lesson(self, index: int) -> Lesson:
        """Return ids (windows, context), anchors, and uniforms for labels and for drafts.

        Labels have one number per position, and drafted tokens one each (windows, anchors,
        depths - 1). The anchors stand at equal distances, as far apart as their number allows.
        """
        ids = self.windows(self.context, index)
        random = np.random.default_rng([self.seed, index])
        stride = self.context // self.anchors
        shift = 1 + int(random.integers(stride - self.depths))
        anchors = shift + stride * torch.arange(self.anchors)
        labels = random.random(ids.shape, dtype=np.float32)
        drafts = random.random((len(ids), self.anchors, self.depths - 1), dtype=np.float32)
        return ids, anchors, torch.from_numpy(labels), torch.from_numpy(drafts)


class Teacher(nn.Module):
    """The target's pass over windows, which the drafters of a group share."""

    def __init__(self, target: Llama, taps: tuple[int, ...]):
        super().__init__()
        self.target, self.taps = target.requires_grad_(False), taps

    @torch.no_grad()
    def forward(self, ids: Tensor) -> Taught:
        """Return the taps, log p (windows, time, vocabulary), and all keys and values."""
        decoder = self.target.model
        x = embed(decoder, ids)
        rotation = rotations(decoder, torch.arange(ids.shape[1]), x)
        states, held = extend(decoder.layers, None, x, rotation)
        return [states[tap - 1] for tap in self.taps], self.log_p(states[-1]), held

    def log_p(self, hidden: Tensor) -> Tensor:
        """Return log-probabilities of rows after the last layer."""
        decoder = self.target.model
        return F.linear(decoder.norm(hidden), decoder.embed_tokens.weight).float().log_softmax(-1)

    @torch.no_grad()
    def follow(self, held: Held, anchors: Tensor, tokens: Tensor) -> Tensor:
        """Return log p (windows, anchors · steps, vocabulary) after each token of the drafts."""
        decoder, steps = self.target.model, tokens.shape[2]
        places = (anchors[:, None] + torch.arange(1, steps + 1)).flatten()
        x = embed(decoder, tokens.flatten(1))
        mask = draft_mask(held[0][0].shape[2], anchors, steps)
        rotation = rotations(decoder, places, x)
        return self.log_p(extend(decoder.layers, held, x, rotation, mask)[0][-1])


def losses(kind: str, log_p: Tensor, log_q: Tensor, uniforms: Tensor) -> Tensor:
    """Return a loss for every row.

    ``kl`` is KL(p ‖ q), ``tv`` the total variation ½ Σ |p - q|, which is one minus the expected
    acceptance. ``ce`` is -log q of a token that ``uniforms`` draw from p: its mean is KL plus the
    entropy of p.
    """
    if kind == "ce":
        return -log_q.gather(-1, draw(log_p, uniforms)[..., None])[..., 0]
    if kind == "kl":
        return (log_p.exp() * (log_p - log_q)).sum(-1)
    assert kind == "tv", kind
    return 0.5 * (log_p.exp() - log_q.exp()).abs().sum(-1)


class Objective(nn.Module):
    """A drafter's loss over the rows of its drafts.

    A drafter with verified rows has its first drafted token at every second of them, and the
    later ones behind the anchors; a block drafter has all of them behind the anchors.
    """

    def __init__(self, head: nn.Module, teacher: Teacher, loss: str, on_policy: bool):
        super().__init__()
        self.head, self.teacher, self.loss, self.on_policy = head, teacher, loss, on_policy
        weights = DEPTH_WEIGHT ** torch.arange(head.depths)
        self.register_buffer("weights", weights / weights.sum())

    def forward(self, lesson: Lesson, taught: Taught) -> Tensor:
        """Return the loss, then by depth the mean KL(target ‖ drafter) and mean overlap."""
        log_p, log_q, uniforms, joined, first = self.rows(lesson, taught)
        found = self.by_depth(losses(self.loss, log_p, log_q, uniforms), first).mean(0)
        loss = (found * self.weights).sum()
        with torch.no_grad():
            kl = losses("kl", log_p, log_q, uniforms)
            overlap = 1 - losses("tv", log_p, log_q, uniforms)
        if isinstance(self.head, DSpark):  # detached, so the confidence changes nothing else
            logits = self.head.confidence(joined.detach()).float()
            loss = loss + F.binary_cross_entropy_with_logits(logits, overlap.clamp(0, 1))
        kl, overlap = (self.by_depth(x, first).mean(0) for x in (kl, overlap))
        return torch.cat((loss[None], kl, overlap))

    def rows(self, lesson: Lesson, taught: Taught) -> tuple[Tensor, ...]:
        """Return log p, log q, uniforms and states of all rows, and the count of verified ones."""
        ids, anchors, labels, drafts = lesson
        features, log_p, held = taught
        verified, drafted, tokens = self.head(
            ids, features, anchors, drafts if self.on_policy else None
        )
        joined = drafted.flatten(1, 2)
        if verified is None:
            first, steps = anchors[:0], torch.arange(self.head.depths)
        else:
            first = anchors[0] % 2 + torch.arange(1, ids.shape[1] - 1, 2)
            steps = torch.arange(1, self.head.depths)
            joined = torch.cat((verified[:, first], joined), dim=1)
        later = (anchors[:, None] + steps).flatten()
        p = log_p[:, torch.cat((first, later))]
        if self.on_policy:
            own = self.teacher.follow(held, anchors, tokens).unflatten(1, (len(anchors), -1))
            if verified is None:
                own = torch.cat((log_p[:, anchors, None], own), dim=2)
            p = torch.cat((log_p[:, first], own.flatten(1, 2)), dim=1)
        q = self.head.logits(joined).float().log_softmax(-1)
        return p, q, labels[:, torch.cat((first, later))], joined, len(first)

    def by_depth(self, values: Tensor, first: int) -> Tensor:
        """Average values of rows (windows, rows), of which ``first`` are verified, by depth."""
        depths = self.head.depths - (first > 0)
        later = values[:, first:].unflatten(1, (-1, depths)).mean(1)
        return torch.cat((values[:, :first].mean(1, keepdim=True), later), 1) if first else later
