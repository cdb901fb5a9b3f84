"""Batches of token windows. A batch depends only on its index, so runs can resume."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor


class Windows:
    """The windows of one shard in a seeded order; every epoch has new offsets and a new order."""

    def __init__(self, path: Path, context: int, seed: int):
        self.tokens = np.fromfile(path, dtype=np.uint16)
        self.context = context
        self.seed = seed
        self.per_epoch = (len(self.tokens) - context - 1) // context - 1
        self.epoch, self.order, self.shift = -1, None, 0

    def get(self, index: int) -> np.ndarray:
        """Return window ``index`` with one more token than the context, for the labels."""
        epoch, position = divmod(index, self.per_epoch)
        if epoch != self.epoch:
            generator = np.random.default_rng([self.seed, self.context, epoch])
            self.epoch, self.order = epoch, generator.permutation(self.per_epoch)
            self.shift = int(generator.integers(self.context))
        start = self.order[position] * self.context + self.shift
        return self.tokens[start : start + self.context + 1]

    def batch(self, index: int, rows: int) -> np.ndarray:
        """Return batch ``index`` of ``rows`` windows."""
        return np.stack([self.get(index * rows + i) for i in range(rows)])


class Mixture:
    """Micro-batches of fixed size with code and prose windows of one split, three to one."""

    def __init__(self, shards: Path, tokens: int, seed: int, split: str = "train"):
        self.shards, self.tokens, self.seed, self.split = shards, tokens, seed, split
        self.open: dict[int, tuple[Windows, Windows]] = {}

    def batch(self, context: int, index: int) -> Tensor:
        """Return batch ``index``, shape (tokens / context, context + 1), as int64."""
        if context not in self.open:
            code = Windows(self.shards / f"{self.split}-code.bin", context, self.seed)
            prose = Windows(self.shards / f"{self.split}-prose.bin", context, self.seed + 1)
            self.open = {context: (code, prose)}
        code, prose = self.open[context]
        rows = self.tokens // context
        found = []
        for row in range(index * rows, (index + 1) * rows):
            group, place = divmod(row, 4)
            found.append(prose.get(group) if place == 3 else code.get(3 * group + place))
        return torch.from_numpy(np.stack(found).astype(np.int64))
