"""The reference implementations of DeepSpec and speculators, and of PARD, on a folder."""

import importlib
import sys
from typing import Any
from unittest.mock import patch

import torch
from reference import set_frequencies, widen
from torch import Tensor
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen3Config

import peers
from block_cases import BlockCase
from block_peers import BlockPeer, Muse, SpecforgeDflash, SpecforgeDspark, Zlab, ZlabPip, ZlabSinks
from peers import (
    Shapes,
    layer_config,
    load,
    saved_config,
    shapes,
    speculators_config,
    stored,
)


class Deepspec(BlockPeer):
    """DeepSpec's DSpark: the loop of its evaluator, drafted tokens forced."""

    made_by = "deepspec afdfa7c, Qwen3DSparkModel.sample_draft_tokens"
    how = "incrementally, its cache kept between rounds"

    @staticmethod
    def build(config: dict[str, Any]) -> PreTrainedModel:
        """Return a model of a configuration."""
        sys.path.insert(0, str(peers.SOURCES / "DeepSpec"))
        from deepspec.modeling.dspark.qwen3.modeling import Qwen3DSparkModel

        settings = Qwen3Config.from_dict(config)
        settings._attn_implementation = "eager"
        return Qwen3DSparkModel(settings)

    @classmethod
    def template(cls, case: BlockCase, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return config.json and shapes; files have embedding and head, copies or not."""
        extra = {"num_target_layers": target["num_hidden_layers"], "tie_word_embeddings": False}
        config = {**layer_config(case, target), **extra, **case.config}
        config["architectures"] = ["Qwen3DSparkModel"]
        model = cls.build(config)
        names = shapes(model)
        left_out = () if case.own_embedding else ("embed_tokens.weight", "lm_head.weight")
        return saved_config(model, case), {k: x for k, x in names.items() if k not in left_out}

    def prepare(self, tensors):
        """Load a folder, and what it shares with the target."""
        self.model = self.build(self.config)
        shared = {"embed_tokens.weight": self.target.embed, "lm_head.weight": self.target.head}
        load(self.model, tensors, shared)
        set_frequencies(self.model.rotary_emb, self.model.config)
        self.cache = DynamicCache()

    def depths(self):
        """The anchor's row drafts as well."""
        return self.width

    def start(self, context, states):
        """Compute the states of a block."""
        new, positions = self.new(states)
        self.hidden = self.model._forward_backbone(
            target_hidden_states=new,
            noise_embedding=self.model.embed_tokens(torch.tensor([self.ids(context)])),
            position_ids=positions,
            attention_mask=None,
            past_key_values=self.cache,
            use_cache=True,
            is_causal=False,
        )
        self.cache.crop(-self.width)

    def chain(self, context, states, path):
        """Draft tokens that are given and not drawn."""
        given = iter([*path, *[0] * self.width])
        draw = lambda logits, temperature: torch.tensor([[next(given)]])
        with patch("deepspec.modeling.dspark.markov_head.sample_tokens", draw):
            tokens, logits = self.model.sample_draft_tokens(
                self.model.compute_logits(self.hidden),
                first_prev_token_ids=torch.tensor(context[-1:]),
                hidden_states=self.hidden,
            )
        before = torch.cat([torch.tensor([context[-1:]]), tokens[:, :-1]], 1)
        found = self.model.predict_confidence_step(self.hidden, prev_token_ids=before)
        if found is not None:
            self.judge(path, found)
        return list(logits[0])


class Captured(Exception):
    """What a training pass gives its loss, and the end of that pass."""

    def __init__(self, logits: Tensor, third: Any):
        super().__init__()
        self.logits, self.third = logits[0], third


def capture(logits: Tensor, targets: Tensor, third: Any = None, *rest: Any, **more: Any) -> None:
    """Take the place of a loss."""
    raise Captured(logits, third)


class SpeculatorsBlock(BlockPeer):
    """speculators' DFlash and DSpark: the training pass on a text with one anchor."""

    how = "from scratch, one training pass for each path"
    kind: str
    name: str

    @classmethod
    def build(cls, config: dict[str, Any]) -> PreTrainedModel:
        """Return a model of a configuration."""
        module = importlib.import_module(f"speculators.models.{cls.kind}")
        settings = getattr(module, f"{cls.name}SpeculatorConfig").from_dict(config)
        settings.transformer_layer_config._attn_implementation = "eager"
        return getattr(module, f"{cls.name}DraftModel")(settings)

    @classmethod
    def template(cls, case: BlockCase, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return config.json and shapes as speculators writes them."""
        anchor = case.config.get("sample_from_anchor", True)
        method = speculators_config(cls.kind, case, target)
        count = case.count or case.config["block_size"] - (not anchor)
        method["proposal_methods"][0]["speculative_tokens"] = count
        config = {
            "speculators_model_type": cls.kind,
            "speculators_config": method,
            **case.config,
            "transformer_layer_config": layer_config(case, target),
        }
        model = cls.build(config)
        left_out = {*model._keys_to_ignore_on_save, "d2t", "t2d"}
        if case.own_embedding:
            left_out.discard("embed_tokens.weight")
        names = {k: x for k, x in shapes(model).items() if k not in left_out}
        return saved_config(model, case), names

    def prepare(self, tensors):
        """Load a folder, and what it shares with the target."""
        config = self.config
        self.model = self.build(config)
        self.model.block_size = self.width
        shared = {k: x for k, x in self.model.state_dict().items() if "verifier" in k}
        shared |= {"embed_tokens.weight": self.target.embed}
        if "d2t" not in tensors:
            shared |= {"lm_head.weight": self.target.head}
        load(self.model, tensors, shared)
        rotary = self.model.config.transformer_layer_config
        set_frequencies(self.model.rotary_emb, rotary)

    def depths(self):
        """Return how many tokens a block drafts."""
        return self.width - (not self.config["sample_from_anchor"])

    def chain(self, context, states, path):
        """Train on a text with the path after the context."""
        count, width = len(context), self.width
        ids = [*context, *path, *[3] * (width + 1)][: count + width]
        loss_mask = torch.zeros(1, len(ids))
        loss_mask[0, count - 1] = 1
        padded = torch.zeros(1, len(ids), states.shape[1], dtype=states.dtype)
        padded[0, : len(states)] = states
        size = self.target.embed.shape[1]
        found = self.trained(
            hidden_states=padded,
            input_ids=torch.tensor([ids]),
            loss_mask=loss_mask,
            verifier_last_hidden_states=torch.zeros(1, len(ids), size, dtype=states.dtype),
            document_ids=torch.zeros(1, len(ids), dtype=torch.long),
            max_anchors=1,
        )
        first = width - self.depths()
        if self.config.get("enable_confidence_head"):
            self.judge(path, found.third[0, first:])
        return list(found.logits[first:])

    def trained(self, **inputs: Any) -> Captured:
        """Return what the training pass gives its loss."""
        module = f"speculators.models.{self.kind}.core.compute_metrics"
        try:
            with patch(module, capture):
                self.model(**inputs)
        except Captured as found:
            return found
        raise AssertionError("no loss was computed")


class SpeculatorsDflash(SpeculatorsBlock):
    """DFlash."""

    made_by = "speculators 0.9.0, DFlashDraftModel.forward"
    kind, name = "dflash", "DFlash"


class SpeculatorsDspark(SpeculatorsBlock):
    """DSpark."""

    made_by = "speculators 0.9.0, DSparkDraftModel.forward"
    kind, name = "dspark", "DSpark"


class SpeculatorsPeagle(SpeculatorsBlock):
    """P-EAGLE: the training pass on the rows of inference alone."""

    made_by = "speculators 0.9.0, PEagleDraftModel.forward"
    kind, name = "peagle", "PEagle"

    def rows_of(self, config):
        """Return the number of drafted tokens."""
        return config["speculators_config"]["proposal_methods"][0]["speculative_tokens"]

    def depths(self):
        """Every row drafts."""
        return self.width

    def chain(self, context, states, path):
        """Sample all verified rows, and one chain of masks after the last one."""
        count, width = len(states), self.width
        anchors = torch.tensor([*range(count), *[count - 1] * (width - 1)])
        depths = torch.tensor([0] * count + list(range(1, width)))
        ids = [*context[1:], *[3] * width]
        padded = torch.zeros(1, len(ids), states.shape[1], dtype=states.dtype)
        padded[0, :count] = states
        size = self.target.embed.shape[1]
        module = "speculators.models.peagle.core.generate_cod_sample_indices"
        with patch(module, lambda **_: (anchors, depths)):
            found = self.trained(
                hidden_states=padded,
                input_ids=torch.tensor([ids]),
                document_ids=torch.zeros(1, len(ids), dtype=torch.long),
                verifier_last_hidden_states=torch.zeros(1, len(ids), size, dtype=states.dtype),
            )
        return list(found.logits[count - 1 :])


class Pard(BlockPeer):
    """PARD: the plain model on the text and masks."""

    made_by = "transformers 5.24.0, LlamaForCausalLM with masks after the text"
    how = "from scratch"

    @classmethod
    def template(cls, case: BlockCase, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return a model's configuration and shapes, with a token to draft with."""
        config = {**layer_config(case, target), **case.config, "torch_dtype": stored(case)}
        config = {"architectures": ["LlamaForCausalLM"], **config}
        names = shapes(LlamaForCausalLM(LlamaConfig.from_dict(config)))
        return config, {k: x for k, x in names.items() if k != "lm_head.weight"}

    def rows_of(self, config):
        """Return the number of drafted tokens."""
        return self.case.count

    def prepare(self, tensors):
        """Load a folder."""
        self.model = LlamaForCausalLM(LlamaConfig.from_dict(self.config))
        self.model.config._attn_implementation = "eager"
        load(self.model, tensors, {"lm_head.weight": tensors["model.embed_tokens.weight"]})
        widen(self.model)

    def depths(self):
        """Every row drafts."""
        return self.width

    def chain(self, context, states, path):
        """Logits do not depend on drafted tokens."""
        ids = [*context, *[self.config["pard_token"]] * (self.width - 1)]
        logits = self.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
        return list(logits[len(context) - 1 :])


BLOCK_PEERS: dict[str, type[BlockPeer]] = {
    "zlab": Zlab,
    "zlab-pip": ZlabPip,
    "zlab-sinks": ZlabSinks,
    "specforge-dflash": SpecforgeDflash,
    "specforge-dspark": SpecforgeDspark,
    "muse": Muse,
    "deepspec": Deepspec,
    "speculators-dflash": SpeculatorsDflash,
    "speculators-dspark": SpeculatorsDspark,
    "speculators-peagle": SpeculatorsPeagle,
    "pard": Pard,
}
