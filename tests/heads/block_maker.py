"""Folders of drafters of blocks."""

from typing import Any

import numpy as np

import formula
from block_cases import MASK
from block_formula import READERS, BlockHead
from block_readings import BLOCK_VARIANTS, block_readings
from maker import NEAR, Maker, Rows, apart, best
from mask_formula import Pard, PEagle
from peers import prefixes
from readings import Wrong
from trainer_peers import BLOCK_PEERS

NARROW = "width_4"


class BlockMaker(Maker):
    """Makes the two rounds of a drafter of blocks."""

    kinds = BLOCK_PEERS
    variants_of = BLOCK_VARIANTS

    def __init__(self, case):
        super().__init__(case)
        make = lambda name, width=None: self.kinds[name](self.folder, case, self.target, width)
        self.also = [make(name) for name in case.also]
        self.width = getattr(getattr(self.head, "settings", None), "width", case.count)
        narrow = BLOCK_VARIANTS[NARROW].width
        self.narrow = make(case.peer, narrow) if NARROW in case.variants else None

    def formula_of(self, config, tensors, dtype=np.float64):
        """Return the formula for a configuration and tensors."""
        case = self.case
        args = (x.numpy().astype(dtype) for x in (self.target.embed, self.target.head))
        if case.layout in READERS:
            return BlockHead(case.layout, tensors, config, *args)
        if case.layout == "pard":
            return Pard(case.count, tensors, config, *args)
        return PEagle(tensors, config, *args)

    def wrong_readings(self, config: dict[str, Any], tensors: formula.Tensors) -> list[Wrong]:
        """Return what the logits must tell from the right reading."""
        return block_readings(self.case, config, tensors, self.head, self.target)

    def head_of_file(self):
        """Add the number of rows, or of drafted tokens if each row drafts one."""
        content = super().head_of_file()
        if self.case.layout == "pard":
            content["taps"] = []
        return {**content, "block": self.width}

    def paths(self, context, states):
        """Return a chain of second best tokens, and one of two tokens that begins with the best.

        So a row that is biased by the best token, and not by the drafted one, has other logits.
        """
        after = lambda path: self.head.rows(context, states, prefixes(path))[path]
        chain: formula.Path = ()
        for _ in range(self.head.depths() - 1):
            chain = (*chain, best(self.head, after(chain), (*chain, MASK), 1))
        other: formula.Path = (best(self.head, after(()), (MASK,)),)
        other = (*other, best(self.head, after(other), (*other, MASK), 2))
        return [*prefixes(chain), *prefixes(other)[1:]]

    def judged(self) -> bool:
        """Return whether there is a confidence head."""
        return "confidence_head.proj.weight" in getattr(self.head, "w", {})

    def as_round(self, context, rows):
        """Add the confidence of every row; variants have the rows of the chain alone."""
        if rows is not self.found:
            chain = max(rows, key=len)
            rows = {path: rows[path] for path in prefixes(chain)}
        content = super().as_round(context, rows)
        for line in content["rows"]:
            path = tuple(line["drafted"])
            if rows is self.found and path in self.peer.confidence:
                line["confidence"] = self.peer.confidence[path]
        return content

    def round(self, context, stale):
        """Compare with the other references, and with the reference on a narrow block."""
        assert MASK not in context
        self.found: Rows = {}
        rows = super().round(context, stale)
        self.found, paths = rows, list(rows)
        states = self.states(context, self.case.taps)
        for peer in self.also:
            found = peer.rows(context, states, paths)
            self.near(rows, {path: x.numpy() for path, x in found.items()})
        if self.narrow is not None:
            found = self.narrow.rows(context, states, paths)
            own = self.head.rows(context, states.numpy(), paths, BLOCK_VARIANTS[NARROW])
            assert own.keys() == found.keys()
            self.near(own, {path: x.numpy() for path, x in found.items()})
        if self.judged():
            self.judge(context, states.numpy(), paths)
        return rows

    def near(self, a: Rows, b: Rows) -> None:
        """Note how far two sets of logits are apart."""
        self.largest = max(self.largest, apart(a, b))
        assert self.largest < NEAR, f"{self.case.name}: {self.largest:.1e}"

    def judge(self, context: list[int], states: np.ndarray, paths: list[formula.Path]) -> None:
        """Compare the confidence of the reference and of the formula."""
        own = self.head.confidence(context, states, paths)
        assert own.keys() == self.peer.confidence.keys()
        self.largest = max([self.largest, *(abs(self.peer.confidence[p] - own[p]) for p in own)])
        if self.head.settings.confidence_markov:
            label = "confidence (not a logit) that sees the best token itself"
            other = self.head.confidence(context, states, paths, own=True)
            effect = max(abs(other[path] - own[path]) for path in own)
            self.effects[label] = max(self.effects.get(label, 0.0), effect)
