"""The tap draft of models/training, run on the files of a folder by the recipe's own loop."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.append(str(Path(__file__).parents[2] / "models/training"))

from cases import BOS, EOS, Case  # noqa: E402
from export import configs  # noqa: E402
from heads.chain import TapDrafter  # noqa: E402
from heads.export import tap_config  # noqa: E402
from heads.parts import TAPS  # noqa: E402
from heads.tap_draft import TapDraft  # noqa: E402
from model import Llama, LlamaConfig  # noqa: E402
from peers import Peer, Shapes, load, shapes, tensors_of  # noqa: E402
from reference import KeepWide  # noqa: E402
from target import Target  # noqa: E402


class TapDraftPeer(Peer):
    """`TapDrafter` of the recipe, drafted tokens forced."""

    made_by = "models/training, heads.chain.TapDrafter"
    how = "incrementally, its cache kept between rounds"

    @staticmethod
    def build(config: dict[str, Any], width: int) -> TapDraft:
        """Return a head of a configuration for a target of that width."""
        shape = LlamaConfig(**{name: config[name] for name in LlamaConfig.__dataclass_fields__})
        with KeepWide():
            return TapDraft(Llama(shape), width)

    @classmethod
    def template(cls, case: Case, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return config.json and shapes as the recipe exports them."""
        head = cls.build(case.config, target["hidden_size"])
        llama = configs(head.config, BOS, EOS)["config.json"]
        return tap_config(llama, target["hidden_size"]), shapes(head)

    def __init__(self, folder: Path, case: Case, target: Target):
        config = json.loads((folder / "config.json").read_text())
        head = self.build(config, target.embed.shape[1])
        load(head, tensors_of(folder), {})
        self.drafter = TapDrafter(head, 1, config["max_position_embeddings"])
        for cache in self.drafter.caches:
            cache.keys, cache.values = cache.keys.double(), cache.values.double()
        self.seen = 0  # states of the target

    def chain(self, context, states, path):
        """Observe new states, then draft tokens that are given and not drawn."""
        if not self.seen:
            self.drafter.begin(torch.tensor(context[:1]))
        if self.seen < len(states):
            self.observe(context, states)
        given = iter((*path, 0))
        draw = lambda logits: (torch.tensor([next(given)]), logits)
        _, logits = self.drafter.propose(len(path) + 1, draw)
        return list(logits[0])

    def observe(self, context: list[int], states: Tensor) -> None:
        """Add rows of the states that the drafter has not seen."""
        ids = torch.tensor([context[self.seen + 1 :]])
        positions = torch.arange(self.seen, len(states))[None]
        features = states[None, self.seen :].chunk(len(TAPS), -1)
        self.drafter.observe(ids, positions, features, torch.tensor([ids.shape[1] - 1]))
        self.seen = len(states)
