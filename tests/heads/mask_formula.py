"""The forward passes of causal drafters with masks, P-EAGLE and PARD, in numpy."""

from typing import Any

import numpy as np

from block_formula import RIGHT
from formula import Array, Eagle3, Path, Tensors, linear, rms, shape_of, through, under


class PEagle(Eagle3):
    """P-EAGLE: rows of EAGLE-3 for verified tokens, and masks with a learnt state after them."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        method = self.config["speculators_config"]["proposal_methods"][0]
        self.count = method["speculative_tokens"]
        masks = self.w["mask_hidden"].reshape(1, -1)
        self.learnt = self.fuse(masks)
        self.learnt_plain = linear(self.w, "fc", masks)

    def depths(self) -> int:
        """Return how many tokens a pass drafts."""
        return self.count

    def rows(self, context, states, paths, reading=RIGHT, stale=None):
        """Compute all rows of one chain in one causal pass."""
        h = self.fuse(np.concatenate([states[:1], states[:-1]]) if reading.late else states)
        kept = 0 if stale is None else len(stale)
        h[len(h) - 1 - kept : len(h) - 1] = self.learnt
        learnt = self.learnt_plain if reading.plain_mask else self.learnt
        count = self.count - 1
        result: dict[Path, Array] = {}
        for path in paths:
            text = context[1:] + [self.config["mask_token_id"]] * count
            if reading.drafted:
                text = context[1:] + list(path) + text[: count - len(path)]
            e = self.embed[text].copy()
            e[len(h) - 1 - kept : len(h) - 1] = self.embed[self.config["mask_token_id"]]
            if reading.zero_mask:
                e[len(h) :] = 0
            steps = np.arange(1, count + 1) * reading.spread + reading.shift
            positions = np.concatenate([np.arange(len(h)), len(h) - 1 + steps])
            x = np.concatenate([h, *[learnt] * count])
            logits, _, _ = self.row(e, x, positions, [], reading)
            result[path] = logits[len(h) - 1 + len(path)]
        return result

    def own_states(self, context: list[int], states: Array, path: Path) -> Array:
        """Return the states that rows of accepted tokens have in the block."""
        return np.concatenate([self.learnt] * len(path))

    def halves(self, e: Array, h: Array, reading: Any) -> Array:
        """Concatenate embeddings and states, in this order."""
        return np.concatenate([e, h], -1)

    def back(self, before: Array, after: Array, reading: Any) -> Array:
        """Nothing is fed back."""
        return before


class Pard:
    """PARD: a model of its own, with masks after the text."""

    def __init__(self, count: int, tensors: Tensors, config: dict[str, Any], *_: Array):
        self.w = {name.removeprefix("model."): x for name, x in tensors.items()}
        self.config, self.count, self.shape = config, count, shape_of(config)
        self.embed = self.w["embed_tokens.weight"]
        self.head = self.w.get("lm_head.weight", self.embed)
        self.ids = np.arange(len(self.head))
        numbers = range(config["num_hidden_layers"])
        self.layers = [under(self.w, f"layers.{i}.") for i in numbers]

    def depths(self) -> int:
        """Return how many tokens a pass drafts."""
        return self.count

    def rows(self, context, states, paths, reading=RIGHT, stale=None):
        """Compute the text and the masks in one causal pass."""
        count, result = self.count - 1, {}
        for path in paths:
            text = context + [self.config["pard_token"]] * count
            if reading.drafted:
                text = context + list(path) + text[len(context) : len(text) - len(path)]
            x = self.embed[text].copy()
            if reading.zero_mask:
                x[len(context) :] = 0
            steps = np.arange(1, count + 1) * reading.spread + reading.shift
            positions = np.concatenate([np.arange(len(context)), len(context) - 1 + steps])
            y, _ = through(self.layers, self.shape, x, positions, [])
            y = rms(y[len(context) - 1 :], self.w["norm.weight"], self.shape.eps)
            late = len(path) + (reading.anchor_first is False)
            if late < len(y):
                result[path] = y[late] @ self.head.T
        return result
