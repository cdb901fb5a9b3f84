"""Drafting with caches: the target and the heads on batches of sequences of unequal lengths.

Caches are indexed by position, so nothing is rolled back: rows of rejected tokens lie behind
the last committed token, where no row reads them before they are overwritten.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heads.dspark import BLOCK, DSpark
from heads.eagle3 import Eagle3
from heads.parts import TAPS, attend, project
from heads.tap_draft import DraftModel, TapDraft
from model import Llama, LlamaConfig

Draw = Callable[[Tensor], tuple[Tensor, Tensor]]  # logits -> tokens and their distributions


class Cache:
    """Keys and values of one layer, by position."""

    def __init__(self, c: LlamaConfig, rows: int, capacity: int):
        shape = rows, c.num_key_value_heads, capacity, c.head_dim
        self.keys, self.values = torch.zeros(shape), torch.zeros(shape)

    def store(self, k: Tensor, v: Tensor, positions: Tensor) -> None:
        """Store rows at their positions."""
        index = positions[:, None, :, None].expand_as(k)
        self.keys.scatter_(2, index, k)
        self.values.scatter_(2, index, v)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> Tensor:
        """Store rows at their positions, then let each see everything up to itself."""
        self.store(k, v, positions)
        mask = torch.arange(self.keys.shape[2]) <= positions[:, None, :, None]
        return attend(q, self.keys, self.values, mask)


def rotations(module: nn.Module, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and sines (batch, 1, time, dim) of positions (batch, time)."""
    return module.cos[positions][:, None], module.sin[positions][:, None]


def run_layers(layers, caches: list[Cache], x: Tensor, rotation, positions: Tensor) -> list[Tensor]:
    """Run decoder layers over rows; return the hidden state after each layer."""
    found = []
    for layer, cache in zip(layers, caches):
        rows = project(layer.self_attn, layer.input_layernorm(x), *rotation)
        x = x + layer.self_attn.o_proj(cache.attend(*rows, positions))
        x = x + layer.mlp(layer.post_attention_layernorm(x))
        found.append(x)
    return found


class CachedTarget:
    """The target, one pass over new rows at a time."""

    def __init__(self, target: Llama, rows: int, capacity: int, taps: tuple[int, ...] = TAPS):
        self.model, self.taps = target.model, taps
        self.caches = [Cache(target.config, rows, capacity) for _ in self.model.layers]

    def run(self, ids: Tensor, positions: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return logits and tapped hidden states of the rows."""
        rotation = rotations(self.model, positions)
        x = self.model.embed_tokens(ids)
        states = run_layers(self.model.layers, self.caches, x, rotation, positions)
        logits = F.linear(self.model.norm(states[-1]), self.model.embed_tokens.weight)
        return logits, [states[after - 1] for after in self.taps]


class Drafter(ABC):
    """Drafts chains for a batch of sequences."""

    def __init__(self, head: nn.Module, layers: int, rows: int, capacity: int):
        self.head = head
        self.caches = [Cache(head.config, rows, capacity) for _ in range(layers)]

    @abstractmethod
    def begin(self, first: Tensor) -> None:
        """Compute what the first token of every sequence needs."""

    @abstractmethod
    def verified(self, ids: Tensor, positions: Tensor, features: list[Tensor]) -> Tensor:
        """Compute rows from features of ``positions`` and the tokens that follow these."""

    @abstractmethod
    def drafted(self, ids: Tensor, positions: Tensor, hidden: Tensor) -> Tensor:
        """Compute rows of drafted tokens; ``hidden`` and ``positions`` are those of the parents."""

    def observe(self, ids: Tensor, positions: Tensor, features: list[Tensor], last: Tensor) -> None:
        """Add verified rows; those after row ``last`` of a sequence are void."""
        rows, index = self.verified(ids, positions, features), torch.arange(len(last))
        self.hidden, self.position = rows[index, last], positions[index, last]

    def propose(self, count: int, draw: Draw) -> tuple[Tensor, Tensor]:
        """Return drafted tokens (batch, count) and their distributions."""
        found = [draw(self.head.logits(self.hidden))]
        hidden, position = self.hidden[:, None], self.position[:, None]
        while len(found) < count:
            hidden = self.drafted(found[-1][0][:, None], position, hidden)
            position = position + 1
            found.append(draw(self.head.logits(hidden[:, 0])))
        tokens, distributions = zip(*found)
        return torch.stack(tokens, dim=1), torch.stack(distributions, dim=1)


class TapDrafter(Drafter):
    """Drafts with a TapDraft or a draft model; an untrained TapDraft is the draft model itself."""

    def __init__(self, head: TapDraft | DraftModel, rows: int, capacity: int):
        super().__init__(head, len(head.model.layers), rows, capacity)

    def begin(self, first: Tensor) -> None:
        """Compute the first token's row, which has no feature before it."""
        self._run(first[:, None], torch.zeros(len(first), 1, dtype=torch.long), 0.0)

    def verified(self, ids: Tensor, positions: Tensor, features: list[Tensor]) -> Tensor:
        """Add the fused features of the token before."""
        return self._run(ids, positions + 1, self.head.fuse(features))

    def drafted(self, ids: Tensor, positions: Tensor, hidden: Tensor) -> Tensor:
        """Run the draft model as it is; a row's state does not pass to the next row.

        Positions are those of the features of verified rows, so all lie one below the tokens'.
        """
        return self._run(ids, positions + 2, 0.0)

    def _run(self, ids: Tensor, positions: Tensor, extra: Tensor | float) -> Tensor:
        decoder = self.head.model
        x = decoder.embed_tokens(ids) + extra
        rotation = rotations(decoder, positions)
        return run_layers(decoder.layers, self.caches, x, rotation, positions)[-1]


class Eagle3Drafter(Drafter):
    """Drafts with an EAGLE-3 head."""

    def __init__(self, head: Eagle3, rows: int, capacity: int):
        super().__init__(head, len(head.layers), rows, capacity)

    def begin(self, first: Tensor) -> None:
        """Do nothing: the first token has no row."""

    def verified(self, ids: Tensor, positions: Tensor, features: list[Tensor]) -> Tensor:
        """Use the fused features as hidden states."""
        return self._run(ids, positions, self.head.fuse(features))

    def drafted(self, ids: Tensor, positions: Tensor, hidden: Tensor) -> Tensor:
        """Use the parents' outputs as hidden states."""
        return self._run(ids, positions + 1, hidden)

    def _run(self, ids: Tensor, positions: Tensor, hidden: Tensor) -> Tensor:
        layer = self.head.layers[0]
        joined = layer.join(self.head.embed_tokens(ids), hidden)
        rows = project(layer.self_attn, joined, *rotations(self.head, positions))
        return layer.finish(hidden, self.caches[0].attend(*rows, positions))


class DSparkDrafter:
    """Drafts with a DSpark head: one block per round, of which the first tokens are drawn."""

    def __init__(self, head: DSpark, rows: int, capacity: int):
        self.head = head
        self.caches = [Cache(head.config, rows, capacity) for _ in head.layers]

    def begin(self, first: Tensor) -> None:
        """Do nothing: context comes from features alone."""

    def observe(self, ids: Tensor, positions: Tensor, features: list[Tensor], last: Tensor) -> None:
        """Add the context of ``positions``; the token after row ``last`` is the next anchor."""
        index = torch.arange(len(last))
        held = self.head.context(features, rotations(self.head, positions))
        for cache, (keys, values) in zip(self.caches, held):
            cache.store(keys, values, positions)
        self.anchor, self.position = ids[index, last], positions[index, last] + 1

    def propose(self, count: int, draw: Draw) -> tuple[Tensor, Tensor]:
        """Return drafted tokens (batch, count) and their distributions."""
        rows, capacity = len(self.anchor), self.caches[0].keys.shape[2]
        positions = self.position[:, None] + torch.arange(BLOCK)
        before = (torch.arange(capacity) < self.position[:, None])[:, None, None]
        block = torch.ones(rows, 1, BLOCK, BLOCK, dtype=torch.bool)
        mask = torch.cat((before.expand(-1, -1, BLOCK, -1), block), dim=-1)
        held = [(cache.keys, cache.values) for cache in self.caches]
        rotation = rotations(self.head, positions)
        states = self.head.block(self.anchor[:, None], rotation, held, mask)
        token, found = self.anchor, []
        for row in range(count):
            token, distribution = draw(self.head.logits(self.head.after(states[:, row], token)))
            found.append((token, distribution))
        tokens, distributions = zip(*found)
        return torch.stack(tokens, dim=1), torch.stack(distributions, dim=1)


DRAFTERS = {
    DraftModel: TapDrafter,
    TapDraft: TapDrafter,
    Eagle3: Eagle3Drafter,
    DSpark: DSparkDrafter,
}
