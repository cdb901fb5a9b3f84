"""The reference implementations of drafters of blocks, each run on the files of a folder."""

import importlib
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from reference import KeepWide, set_frequencies
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel, Qwen3Config

import peers
from block_cases import BlockCase
from formula import Path as Tokens
from peers import (
    Peer,
    Rows,
    Shapes,
    layer_config,
    leaves,
    load,
    prefixes,
    saved_config,
    shapes,
    tensors_of,
)
from target import Target


class BlockPeer(Peer):
    """A model of a folder that computes a block once for every round."""

    confidence: dict[Tokens, float]

    def __init__(self, folder: Path, case: BlockCase, target: Target, width: int | None = None):
        self.case, self.target = case, target
        self.config = json.loads((folder / "config.json").read_text())
        self.width = width or self.rows_of(self.config)
        self.seen = 0  # states of the target
        self.prepare(tensors_of(folder))

    def rows_of(self, config: dict[str, Any]) -> int:
        """Return the number of rows of a trained block."""
        return config["block_size"]

    def prepare(self, tensors: dict[str, Tensor]) -> None:
        """Build the model and load tensors."""
        raise NotImplementedError

    def start(self, context: list[int], states: Tensor) -> None:
        """Compute what does not depend on drafted tokens."""

    def depths(self) -> int:
        """Return how many tokens a block drafts."""
        return self.width - 1

    def ids(self, context: list[int]) -> list[int]:
        """Return the tokens of a block."""
        return [context[-1], *[self.config["mask_token_id"]] * (self.width - 1)]

    def rows(self, context: list[int], states: Tensor, paths: list[Tokens]) -> Rows:
        """Return logits after the paths that the block reaches."""
        self.confidence, result = {}, {}
        with KeepWide(), torch.no_grad():
            self.start(context, states)
            for path in leaves([path for path in paths if len(path) < self.depths()]):
                logits = self.chain(context, states, path)
                result |= dict(zip(prefixes(path), logits[: len(path) + 1], strict=True))
        self.seen = len(states)
        return result

    def judge(self, path: Tokens, logits: Tensor) -> None:
        """Note the confidence after every prefix of a path, from its logits by row."""
        values = torch.sigmoid(logits.reshape(-1)).tolist()
        self.confidence |= dict(zip(prefixes(path), values, strict=False))

    def new(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states that the model has not seen, and all positions of a pass."""
        positions = torch.arange(self.seen, len(states) + self.width)
        return states[None, self.seen :], positions[None]


def written_config(model: PreTrainedModel, case: BlockCase) -> dict[str, Any]:
    """Return a configuration as transformers 4 wrote it: theta at the top."""
    config = saved_config(model, case)
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    config["torch_dtype"] = config.pop("dtype")
    return config


class Zlab(BlockPeer):
    """z-lab's repository: `DFlashDraftModel`, its cache kept between rounds."""

    made_by = "z-lab/dflash 44947fb, DFlashDraftModel.forward"
    how = "incrementally, its cache kept between rounds"

    @classmethod
    def module(cls) -> types.ModuleType:
        """Import the repository's file, under a name that no package has."""
        name = "zlab_dflash"
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(
                name, peers.SOURCES / "dflash/dflash/model.py"
            )
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        return sys.modules[name]

    @classmethod
    def model_class(cls) -> type[PreTrainedModel]:
        """Return the model's class."""
        return cls.module().DFlashDraftModel

    @classmethod
    def build(cls, config: dict[str, Any]) -> PreTrainedModel:
        """Return a model of a configuration."""
        settings = Qwen3Config.from_dict(config)
        settings._attn_implementation = "eager"
        return cls.model_class()(settings)

    @classmethod
    def template(cls, case: BlockCase, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return config.json and shapes; embedding and head are the target's."""
        config = {
            **layer_config(case, target),
            "num_target_layers": target["num_hidden_layers"],
            **case.config,
        }
        model = cls.build(config)
        return written_config(model, case), shapes(model)

    def prepare(self, tensors):
        """Load a folder."""
        self.model = self.build(self.config)
        load(self.model, tensors, {})
        set_frequencies(self.model.rotary_emb, self.model.config)
        self.cache = self.new_cache()

    def rows_of(self, config):
        """Return the number of rows, from either place."""
        return config.get("block_size") or config["dflash_config"]["block_size"]

    def ids(self, context):
        """Return the tokens of a block."""
        return [context[-1], *[self.model.mask_token_id] * (self.width - 1)]

    def new_cache(self) -> DynamicCache:
        """Return a cache of keys and values of the context."""
        return DynamicCache()

    def crop(self, length: int) -> None:
        """Drop the block; the repository names the length, which newer caches do not take."""
        self.cache.crop(length - self.cache.get_seq_length())

    def embedded(self, context: list[int]) -> Tensor:
        """Return the embeddings of a block."""
        return self.target.model.model.embed_tokens(torch.tensor([self.ids(context)]))

    def start(self, context, states):
        """Compute the logits of all rows."""
        new, positions = self.new(states)
        hidden = self.model(
            target_hidden=new,
            noise_embedding=self.embedded(context),
            position_ids=positions,
            past_key_values=self.cache,
            use_cache=True,
            **self.options(),
        )
        self.crop(len(states))
        self.logits = list(self.output(hidden)[0, 1:])

    def options(self) -> dict[str, Any]:
        """Return what the repository's loop gives its model."""
        return {"is_causal": False}

    def output(self, hidden: Tensor) -> Tensor:
        """Return logits of states."""
        return self.target.model.lm_head(hidden)

    def chain(self, context, states, path):
        """Logits do not depend on drafted tokens."""
        return self.logits


class ZlabPip(Zlab):
    """z-lab's package of August 2026: masks by causality and windows, scales."""

    made_by = "dflash 0.1.0, DFlashDraftModel.forward and compute_logits"

    @classmethod
    def module(cls):
        """Import the package."""
        return importlib.import_module("dflash.model")

    def new_cache(self):
        """Return a cache as its loop makes it."""
        return self.module()._make_cache(self.model.config)

    def crop(self, length):
        """Drop the block as its loop does."""
        self.module()._crop_to(self.cache, length)

    def embedded(self, context):
        """Return the embeddings as its loop makes them."""
        module = self.module()
        scale = module._draft_value(self.model.config, "input_embedding_scale", 1.0)
        ids = torch.tensor([self.ids(context)])
        return module._raw_input_embeddings(self.target.model, ids, float(scale))

    def options(self):
        """Return nothing: causality is in the configuration."""
        return {}

    def output(self, hidden):
        """Return logits with multiplier and cap."""
        return self.model.compute_logits(hidden, self.target.model.lm_head)


class ZlabSinks(ZlabPip):
    """The package's model with the attention of gpt-oss, and scaled values."""

    made_by = "dflash 0.1.0, DFlashDraftModel with the attention of transformers' gpt-oss"

    @classmethod
    def build(cls, config):
        """Return a model that has a window in every layer and is not causal."""
        own = config["dflash_config"]
        window = {
            "layer_types": ["sliding_attention"] * config["num_hidden_layers"],
            "use_sliding_window": True,
            "sliding_window": own["swa_window_size"],
            "is_causal": False,
        }
        model = super().build({**config, **window})
        for x in model.layers:
            x.self_attn.sinks = nn.Parameter(torch.zeros(config["num_attention_heads"]))
            scaled = lambda m, i, o: o * own["attention_value_scale"]
            x.self_attn.v_proj.register_forward_hook(scaled)
        return model

    @classmethod
    def template(cls, case, target):
        """Return the configuration without layer types, and a tensor for the masks' input."""
        config, names = super().template(case, target)
        for key in ("layer_types", "sliding_window", "use_sliding_window", "is_causal"):
            del config[key]
        names = {name.replace(".sinks", ".attention_sink_bias"): x for name, x in names.items()}
        return config, {**names, "mask_embedding": torch.Size([target["hidden_size"]])}

    def prepare(self, tensors):
        """Load a folder, with the names of gpt-oss."""
        self.mask = tensors.pop("mask_embedding").double()
        names = {name.replace("attention_sink_bias", "sinks"): x for name, x in tensors.items()}
        super().prepare(names)

    def embedded(self, context):
        """Return the embeddings with the file's own one for masks."""
        masks = self.mask.expand(1, self.width - 1, -1)
        return torch.cat([super().embedded(context)[:, :1], masks], 1)

    def start(self, context, states):
        """Run with another attention than the package's."""
        functions = {"sdpa": self.attend}
        with patch.object(self.module(), "ALL_ATTENTION_FUNCTIONS", functions):
            super().start(context, states)

    @staticmethod
    def attend(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, **more: Any):
        """Call the attention of gpt-oss with a mask to add."""
        from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

        added = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, float("-inf"))
        scaling, dropout = more["scaling"], more["dropout"]
        return eager_attention_forward(module, q, k, v, added, scaling=scaling, dropout=dropout)


class SpecforgeDflash(Zlab):
    """SpecForge's trainer on one block: its own mask, from scratch."""

    made_by = "SpecForge 0.2.0, OnlineDFlashModel._forward_draft_blocks"
    how = "from scratch"
    kind = "dflash", "DFlashDraftModel"

    @classmethod
    def model_class(cls):
        """Return the model's class."""
        module = importlib.import_module(f"specforge.modeling.draft.{cls.kind[0]}")
        return getattr(module, cls.kind[1])

    def start(self, context, states):
        """Train on a text in which one anchor alone is possible."""
        from specforge.algorithms.common.dflash_family_model import OnlineDFlashModel

        lm_head, table = self.target.model.lm_head, self.target.model.model.embed_tokens
        mask = self.model.mask_token_id
        trainer = OnlineDFlashModel(
            self.model, lm_head, table, mask, self.width, "sdpa", num_anchors=1
        )
        count = len(context)
        loss_mask = torch.zeros(1, count + 1, dtype=torch.float64)
        loss_mask[0, -2:] = 1
        padded = torch.zeros(1, count + 1, states.shape[1], dtype=states.dtype)
        padded[0, : len(states)] = states
        ids = torch.tensor([[*context, 3]])
        anchors, _, self.hidden = trainer._forward_draft_blocks(ids, padded, loss_mask)
        assert anchors.tolist() == [[count - 1]]
        self.logits = list(lm_head(self.hidden)[0, 1:])


class SpecforgeDspark(SpecforgeDflash):
    """SpecForge's DSpark: the same pass, and the Markov head on tokens that are given."""

    made_by = "SpecForge 0.2.0, OnlineDFlashModel._forward_draft_blocks and apply_markov_logits"
    kind = "dspark", "DSparkDraftModel"

    def depths(self):
        """The anchor's row drafts as well."""
        return self.width

    def chain(self, context, states, path):
        """Bias every row by the token before, as in training."""
        tokens = [context[-1], *path, *[0] * self.width][: self.width]
        before = torch.tensor([[tokens]])
        hidden = self.hidden[:, None]
        logits = self.model.apply_markov_logits(
            self.target.model.lm_head(hidden), prev_token_ids=before, hidden_states=hidden
        )
        self.judge(path, self.model.predict_confidence(hidden, prev_token_ids=before))
        return list(logits[0, 0])


class Muse(BlockPeer):
    """transformers' own drafter of blocks."""

    made_by = "transformers 5.24.0, MuseGlimmerAssistantModel.forward"
    how = "incrementally, its cache kept between rounds"

    @staticmethod
    def build(config: dict[str, Any]) -> PreTrainedModel:
        """Return a model of a configuration."""
        from transformers import MuseGlimmerAssistantConfig, MuseGlimmerAssistantModel

        settings = MuseGlimmerAssistantConfig.from_dict(config)
        settings._attn_implementation = "eager"
        return MuseGlimmerAssistantModel(settings)

    @classmethod
    def template(cls, case: BlockCase, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return config.json and shapes; embedding and head are the target's."""
        config = {**layer_config(case, target), **case.config}
        theta = config.pop("rope_theta")
        for key in ("model_type", "vocab_size", "tie_word_embeddings"):
            del config[key]
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
        model = cls.build(config)
        return saved_config(model, case), shapes(model)

    def prepare(self, tensors):
        """Load a folder and make a cache as generation does."""
        from transformers.cache_utils import DFlashCache

        self.model = self.build(self.config)
        load(self.model, tensors, {})
        set_frequencies(self.model.rotary_emb, self.model.config)
        self.cache = DFlashCache(config=self.model.config)
        self.cache.activate_past_recording()

    def start(self, context, states):
        """Do what `DFlashTokenCandidateGenerator` does."""
        new, positions = self.new(states)
        self.cache.set_previous_accepted_tokens(new.shape[1])
        if self.seen:
            self.cache.crop(-self.width)
        ids = torch.tensor([self.ids(context)])
        hidden = self.model(
            noise_embeds=self.target.model.model.embed_tokens(ids),
            context_hidden_states=new,
            position_ids=positions,
            cache=self.cache,
        ).last_hidden_state
        self.logits = list(self.target.model.lm_head(hidden)[0, 1:])

    def chain(self, context, states, path):
        """Logits do not depend on drafted tokens."""
        return self.logits
