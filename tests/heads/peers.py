"""The reference implementations, each run on the files of a folder.

`template` builds the reference's own model to learn how its trainer writes a folder: the
keys of config.json, and the names and shapes of the tensors. An object is a model loaded
from a written folder; its `rows` are the reference's logits after every path of drafted
tokens. A path is the tuple of tokens drafted after the context.
"""

import importlib
import importlib.util
import json
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config
from transformers.cache_utils import MtpCache
from transformers.masking_utils import create_causal_mask
from transformers.modeling_layers import MtpModel

from cases import Case
from formula import Path as Tokens
from reference import KeepWide, set_frequencies
from target import Target

Rows = dict[Tokens, Tensor]
Shapes = dict[str, torch.Size]
SOURCES = Path("sources")


def shapes(model: nn.Module) -> Shapes:
    """Return the names and shapes of a model's state."""
    return {name: x.shape for name, x in model.state_dict().items()}


def tensors_of(folder: Path) -> dict[str, Tensor]:
    """Load the only safetensors file of a folder."""
    (file,) = folder.glob("*.safetensors")
    return load_file(file)


def load(model: nn.Module, tensors: dict[str, Tensor], shared: dict[str, Tensor]) -> None:
    """Load a file and what it shares with the target; nothing may be missing or left."""
    model.load_state_dict({**shared, **tensors}, strict=True)
    for parameter in model.parameters():
        parameter.data = parameter.data.double()
    model.eval()


def saved_config(model: PreTrainedModel, case: Case) -> dict[str, Any]:
    """Return the config.json that `save_pretrained` writes, with the type of the case."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = json.loads((Path(folder) / "config.json").read_text())
    return {**config, "dtype": stored(case)}


def stored(case: Case) -> str:
    """Return the type in which a case's weights are stored."""
    return "bfloat16" if case.bf16 else "float32"


def prefixes(path: Tokens) -> list[Tokens]:
    """Return a path and all that lead to it, the empty one first."""
    return [path[:i] for i in range(len(path) + 1)]


def leaves(paths: list[Tokens]) -> list[Tokens]:
    """Return the paths that lead to no other."""
    return [p for p in paths if not any(q != p and q[: len(p)] == p for q in paths)]


class Peer:
    """What all peers share."""

    made_by: str  # what computes the numbers, with its version
    how: str  # incrementally or from scratch

    def rows(self, context: list[int], states: Tensor, paths: list[Tokens]) -> Rows:
        """Return logits after the paths; a peer with a tree of its own returns that instead.

        `states` are the target's states of all tokens but the last, `[tokens, width]`.
        """
        result: Rows = {}
        with KeepWide(), torch.no_grad():
            for path in leaves(paths):
                logits = self.chain(context, states, path)
                result |= dict(zip(prefixes(path), logits, strict=True))
        return result

    def chain(self, context: list[int], states: Tensor, path: Tokens) -> list[Tensor]:
        """Return the logits after every prefix of a path."""
        raise NotImplementedError


class SpeculatorsEagle3(Peer):
    """`Eagle3DraftModel` of speculators: its training pass, drafted tokens forced."""

    made_by = "speculators 0.9.0, Eagle3DraftModel.forward"
    how = "from scratch, one pass of training-time test for each path"

    @staticmethod
    def build(config: dict[str, Any]) -> PreTrainedModel:
        """Return a model of a configuration."""
        from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig

        settings = Eagle3SpeculatorConfig.from_dict(config)
        settings.transformer_layer_config._attn_implementation = "eager"
        return Eagle3DraftModel(settings)

    @classmethod
    def template(cls, case: Case, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return config.json and shapes as speculators writes them."""
        config = {
            "speculators_model_type": "eagle3",
            "speculators_config": speculators_config("eagle3", case, target),
            **case.config,
            "transformer_layer_config": layer_config(case, target),
        }
        model = cls.build(config)
        names = shapes(model)
        # Those of the verifier are never written; the embedding always is, but copies it.
        left_out = {"verifier_lm_head.weight", "verifier_norm.weight"}
        left_out |= set() if case.own_embedding else {"embed_tokens.weight"}
        return saved_config(model, case), {k: x for k, x in names.items() if k not in left_out}

    def __init__(self, folder: Path, case: Case, target: Target):
        self.model = self.build(json.loads((folder / "config.json").read_text()))
        tensors = tensors_of(folder)
        shared = {k: x for k, x in self.model.state_dict().items() if "verifier" in k}
        load(self.model, tensors, {**shared, "embed_tokens.weight": target.embed})
        set_frequencies(self.model.rotary_emb, self.model.config.transformer_layer_config)

    def chain(self, context, states, path):
        """Pad the states: the rows after that of the last token are not read."""
        count = len(context) - 1 + len(path)
        padded = torch.zeros(1, count, states.shape[1], dtype=states.dtype)
        padded[0, : len(states)] = states
        text, seen = context + list(path), []
        hook = self.model.lm_head.register_forward_hook(lambda m, i, o: seen.append(o[0]))
        self.model(
            hidden_states=padded,
            input_ids=torch.tensor([text[1:]]),
            document_ids=torch.zeros(1, count, dtype=torch.long),
            ttt_steps=len(path) + 1,
        )
        hook.remove()
        return [logits[len(states) - 1] for logits in seen]


def speculators_config(kind: str, case: Case, target: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a configuration that all models of speculators have."""
    method = {"proposal_type": "greedy", "speculative_tokens": 3}
    verifier = {"name_or_path": case.target, "architectures": target["architectures"]}
    return {
        "algorithm": kind,
        "proposal_methods": [method],
        "default_proposal_method": "greedy",
        "verifier": verifier,
    }


def layer_config(case: Case, target: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a head's layer inside a configuration of speculators."""
    shared = ("vocab_size", "hidden_size", "max_position_embeddings")
    config = {"tie_word_embeddings": False, **{key: target[key] for key in shared}}
    return {**config, **case.layer}


class Specforge(Peer):
    """SpecForge's draft model: the loop of its training-time test, drafted tokens forced."""

    made_by = "SpecForge 0.2.0, LlamaForCausalLMEagle3.backbone and compute_logits"
    how = "from scratch, one loop of training-time test for each path"

    @staticmethod
    def build(config: dict[str, Any]) -> PreTrainedModel:
        """Return a model of a configuration."""
        from specforge.modeling.draft.llama3_eagle import LlamaForCausalLMEagle3

        return LlamaForCausalLMEagle3(LlamaConfig.from_dict(config))

    @classmethod
    def template(cls, case: Case, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return the configuration as its recipes write it; its exporter leaves the embedding."""
        config = safeailab_config(case, target)
        config["architectures"] = ["LlamaForCausalLMEagle3"]
        names = shapes(cls.build(config))
        return config, {k: x for k, x in names.items() if k != "embed_tokens.weight"}

    def __init__(self, folder: Path, case: Case, target: Target):
        self.model = self.build(json.loads((folder / "config.json").read_text()))
        load(self.model, tensors_of(folder), {"embed_tokens.weight": target.embed})
        widen_tables(self.model)

    def chain(self, context, states, path):
        """Run as many steps as there are rows, each with the tokens shifted by one more."""
        count, text = len(states), context + list(path)
        h = self.model.project_hidden_states(states[None])
        mask = torch.ones(1, count, dtype=torch.bool)
        single = torch.zeros(1)  # its least number is that of masked scores
        mask = self.model.prepare_decoder_attention_mask(mask, single, 1, count, 0)
        cache: list[list[Tensor]] = [[], []]
        result = []
        for step in range(len(path) + 1):
            ids = text[1 + step :][:count]
            h = self.model.backbone(
                input_embeds=self.model.embed_input_ids(torch.tensor([ids])),
                hidden_states=h,
                cache_hidden=cache,
                attention_mask=mask,
                position_ids=torch.arange(count)[None],
            )
            result.append(self.model.compute_logits(h)[0, -1])
        return result


def safeailab_config(case: Case, target: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration in the style of the EAGLE repository."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "bos_token_id": target["bos_token_id"],
        "eos_token_id": target["eos_token_id"],
        "hidden_act": "silu",
        "hidden_size": target["hidden_size"],
        "initializer_range": 0.02,
        "max_position_embeddings": target["max_position_embeddings"],
        "model_type": "llama",
        "pad_token_id": 0,
        "tie_word_embeddings": False,
        "torch_dtype": stored(case),
        "use_cache": True,
        "vocab_size": target["vocab_size"],
        **case.config,
    }


def widen_tables(model: nn.Module) -> None:
    """Compute tables of cosines and sines in double precision.

    As everywhere, a frequency is rounded to f32, and so is its product with the position.
    """
    for module in model.modules():
        if hasattr(module, "cos_cached"):
            halves = torch.arange(0, module.dim, 2, dtype=torch.float64) / module.dim
            positions = torch.arange(module.cos_cached.shape[-2], dtype=torch.float32)
            half = torch.outer(positions, (module.base**-halves).float()).double()
            angles = torch.cat([half, half], -1).reshape(module.cos_cached.shape)
            module.cos_cached, module.sin_cached = angles.cos(), angles.sin()


class Safeailab(Peer):
    """The EAGLE repository's draft model: its own tree, its cache kept between rounds."""

    how = "incrementally, the rows of its own tree of two beams"
    module: str
    draft_head: bool

    @classmethod
    def build(cls, config: dict[str, Any]) -> nn.Module:
        """Return a model of a configuration."""
        sys.path.insert(0, str(SOURCES / "EAGLE"))
        model = importlib.import_module(f"eagle.model.{cls.module}").Model
        settings = importlib.import_module("eagle.model.configs").EConfig(**config)
        # Newer classes of configurations put other things here than the file says.
        settings.rope_scaling = config.get("rope_scaling")
        settings.rope_theta = config.get("rope_theta", 10000.0)
        bias = config.get("bias", True)  # as EaModel reads it
        return model(settings, bias=bias, total_tokens=8, depth=3, top_k=2)

    @classmethod
    def template(cls, case: Case, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return config.json and shapes; files have the embedding, as a copy."""
        config = safeailab_config(case, target)
        left_out = set() if case.own_embedding else {"embed_tokens.weight"}
        names = shapes(cls.build(config))
        return config, {k: x for k, x in names.items() if k not in left_out}

    def __init__(self, folder: Path, case: Case, target: Target):
        self.model = self.build(json.loads((folder / "config.json").read_text()))
        load(self.model, tensors_of(folder), {"embed_tokens.weight": target.embed})
        widen_tables(self.model)
        self.head = target.model.lm_head
        self.model.init_tree()
        self.model.reset_kv()

    def rows(self, context, states, paths):
        """Record what goes in and out while the model drafts its own tree."""
        passes: list[tuple[Tensor, Tensor, Tensor]] = []
        logits: list[Tensor] = []
        hook = lambda m, args, kwargs, out: passes.append(
            (args[0][0], kwargs["input_ids"][0], out[0][0])
        )
        head = self.model.lm_head if self.draft_head else self.head
        hooks = [
            self.model.register_forward_hook(hook, with_kwargs=True),
            head.register_forward_hook(lambda m, i, o: logits.append(o)),
        ]
        kept = self.model.stable_kv
        new = states if kept is None else states[kept[0][0].shape[2] :]
        with KeepWide(), torch.no_grad():
            self.model.topK_genrate(new[None], torch.tensor([context]), self.head, None)
        for h in hooks:
            h.remove()
        assert len(passes) == len(logits) == self.model.depth + 1
        # A row's parent is the row whose state it was given.
        result: Rows = {(): logits[0].reshape(-1)}
        states_of: dict[Tokens, Tensor] = {(): passes[0][2][-1]}
        for (given, ids, out), level in zip(passes[1:], logits[1:], strict=True):
            parents = dict(states_of)
            for i, token in enumerate(ids.tolist()):
                (parent,) = [p for p, x in parents.items() if torch.equal(x, given[i])]
                path = (*parent, token)
                result[path], states_of[path] = level[i], out[i]
        return result


class SafeailabEagle3(Safeailab):
    """EAGLE-3 of the EAGLE repository."""

    made_by = "SafeAILab/EAGLE cb7e084, cnets.Model.topK_genrate"
    module, draft_head = "cnets", True


class SafeailabEagle1(Safeailab):
    """EAGLE-1 of the EAGLE repository."""

    made_by = "SafeAILab/EAGLE cb7e084, cnets1.Model.topK_genrate"
    module, draft_head = "cnets1", False


class TransformersMtp(Peer):
    """transformers' `MtpModel` around the target's own kind of layer."""

    made_by = "transformers 5.24.0, MtpModel.forward_layer"
    how = "verified rows in one pass and drafted rows one by one, a new cache for each path"

    @staticmethod
    def pattern(config: Any) -> None:
        """Let MtpModel know which tensors are its own: dense families do not say."""
        first = config.num_hidden_layers
        layers = "|".join(str(first + i) for i in range(config.num_nextn_predict_layers))
        config.num_mtp_layers = config.num_nextn_predict_layers
        LlamaForCausalLM._keys_to_ignore_on_load_unexpected = [rf"model\.layers\.({layers})\."]

    @classmethod
    def template(cls, case: Case, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return the target's configuration and shapes with those of its last layers."""
        config = LlamaConfig.from_dict(target)
        cls.pattern(config)
        main = LlamaForCausalLM(config)
        names = shapes(main)
        for name, shape in shapes(MtpModel(main, config.num_mtp_layers).layers).items():
            index, rest = name.split(".", 1)
            rest = rest.removeprefix("mtp_block.").replace("post_norm.", "shared_head.norm.")
            names[f"model.layers.{config.num_hidden_layers + int(index)}.{rest}"] = shape
        return target, names

    def __init__(self, folder: Path, case: Case, target: Target):
        self.pattern(target.model.config)
        self.model = MtpModel.from_pretrained(target.model)
        for parameter in self.model.parameters():
            parameter.data = parameter.data.double()
        self.model.eval()

    def chain(self, context, states, path):
        """Feed the state that a layer returns to the next drafted row."""
        if self.model.num_mtp_layers > 1:
            return self.by_position(context, states, path)
        cache = MtpCache(config=self.model.config)
        ids, positions = torch.tensor([context[1:]]), torch.arange(1, len(context))[None]
        h, result = states[None], []
        for token in (*path, None):
            h = self.model.forward_layer(0, h, positions, cache, input_ids=ids)[:, -1:]
            result.append(self.model._project_to_logits(h)[0, -1])
            ids, positions = torch.tensor([[token or 0]]), positions[:, -1:] + 1
        return result

    def by_position(self, context: list[int], states: Tensor, path: Tokens) -> list[Tensor]:
        """Do what MtpModel.forward does, with tokens that are given and not drawn."""
        cache = MtpCache(config=self.model.config)
        ids, positions = torch.tensor([context[1:]]), torch.arange(1, len(context))[None]
        h, result, greedy = states[None], [], MtpCache(config=self.model.config)
        own, own_logits, _ = self.model(ids, h, None, positions, greedy)
        for layer, token in enumerate((*path, 0)):
            h = self.model.forward_layer(layer, h, positions, cache, input_ids=ids)
            result.append(self.model._project_to_logits(h)[0, -1])
            if tuple(own[0, :layer].tolist()) == path[:layer]:
                assert torch.allclose(result[-1], own_logits[0, layer], rtol=0, atol=1e-9)
            ids = torch.cat([ids[:, 1:], torch.tensor([[token]])], 1)
            positions = positions + 1
        return result


class SpeculatorsMtp(Peer):
    """speculators' layer for dense Qwen3, on all rows that inference has."""

    made_by = "speculators 0.9.0, Qwen3MTPLayer; the first row also by MTPDraftModel.forward"
    how = "from scratch for every row"

    @staticmethod
    def build(config: dict[str, Any]) -> PreTrainedModel:
        """Return a model of a configuration."""
        from speculators.models.mtp import MTPDraftModel, MTPSpeculatorConfig

        settings = MTPSpeculatorConfig.from_dict(config)
        settings.transformer_layer_config._attn_implementation = "eager"
        return MTPDraftModel(settings)

    @staticmethod
    def settings(case: Case, target: dict[str, Any], layer: dict[str, Any]) -> dict[str, Any]:
        """Return a configuration in speculators' format."""
        return {
            "speculators_model_type": "mtp",
            "speculators_config": speculators_config("mtp", case, target),
            "transformer_layer_config": layer,
        }

    @classmethod
    def template(cls, case: Case, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return config.json and shapes as speculators writes them."""
        model = cls.build(cls.settings(case, target, layer_config(case, target)))
        names = shapes(model)
        return saved_config(model, case), {k: x for k, x in names.items() if "mtp_layers" in k}

    def __init__(self, folder: Path, case: Case, target: Target):
        self.model = self.build(json.loads((folder / "config.json").read_text()))
        self.finish(tensors_of(folder), target)

    def finish(self, tensors: dict[str, Tensor], target: Target) -> None:
        """Load tensors under speculators' names."""
        shared = {"embed_tokens.weight": target.embed, "lm_head.weight": target.head}
        shared["verifier_lm_head.weight"] = target.head
        load(self.model, tensors, shared)
        set_frequencies(self.model.rotary_emb, self.model.config.transformer_layer_config)

    def chain(self, context, states, path):
        """Give drafted rows the states that the layer returned for the rows before them."""
        first = self.first_row(context, states)
        h, result = states[None], []
        for length in range(len(path) + 1):
            text = context + list(path[:length])
            positions = torch.arange(h.shape[1])[None]
            mask = create_causal_mask(
                config=self.model.config.transformer_layer_config,
                inputs_embeds=h,
                attention_mask=None,
                past_key_values=None,
                position_ids=positions,
            )
            out = self.model.mtp_layers[0](
                hidden_states=h,
                token_embeddings=self.model.embed_tokens(torch.tensor([text[1:]])),
                attention_mask=mask,
                position_ids=positions,
                position_embeddings=self.model.rotary_emb(h, positions),
            )
            result.append(self.model.lm_head(out)[0, -1])
            h = torch.cat([h, out[:, -1:]], 1)
        assert (result[0] - first).abs().max() < 1e-9
        return result

    def first_row(self, context: list[int], states: Tensor) -> Tensor:
        """Return what the model's own training pass gives for the first drafted token."""
        steps = self.model.config.num_speculative_steps
        ids = torch.tensor([context + [0] * steps])
        padded = torch.zeros(1, ids.shape[1], states.shape[1], dtype=states.dtype)
        padded[0, : len(states)] = states
        return self.model(ids, padded)[0][0][0, len(states) - 1]


class NativeMtp(SpeculatorsMtp):
    """The same layer on `mtp.*` tensors of a target's folder, renamed by the converter."""

    made_by = "speculators 0.9.0, MTPConverter and Qwen3MTPLayer"

    @classmethod
    def template(cls, case: Case, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return the target's configuration and shapes with those under `mtp.`."""
        from speculators.convert.mtp.converter import MTP_EXACT_REMAP, MTP_PREFIX_REMAP
        from transformers import AutoModelForCausalLM, Qwen3Config

        names = shapes(AutoModelForCausalLM.from_config(Qwen3Config.from_dict(target)))
        model = cls.build(cls.settings(case, target, target))
        back = [(new, old) for old, new in (*MTP_EXACT_REMAP.items(), *MTP_PREFIX_REMAP)]
        for name, shape in shapes(model.mtp_layers).items():
            name = f"mtp_layers.{name}"
            new, old = next((new, old) for new, old in back if name.startswith(new))
            names[old + name.removeprefix(new)] = shape
        return target, names

    def __init__(self, folder: Path, case: Case, target: Target):
        from speculators.convert.mtp.converter import MTPConverter

        config = json.loads((folder / "config.json").read_text())
        self.model = self.build(self.settings(case, config, config))
        self.finish(MTPConverter().convert_to_state_dict(folder), target)


class Mimo(Peer):
    """MiMo's own modelling file."""

    made_by = "MiMo-7B, modeling_mimo.MiMoMTPLayers"
    how = "from scratch for every row"

    @staticmethod
    def module() -> types.ModuleType:
        """Import modeling_mimo.py; the configuration that it imports is a Qwen2Config."""
        if "mimo.modeling_mimo" not in sys.modules:
            package = types.ModuleType("mimo")
            package.__path__ = [str(SOURCES / "MiMo")]
            configuration = types.ModuleType("mimo.configuration_mimo")
            configuration.MiMoConfig = MimoConfig
            sys.modules |= {"mimo": package, "mimo.configuration_mimo": configuration}
        return importlib.import_module("mimo.modeling_mimo")

    @classmethod
    def template(cls, case: Case, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return the configuration and the shapes of the whole model."""
        model = cls.module().MiMoForCausalLM(MimoConfig.from_dict(target))
        return target, shapes(model)

    def __init__(self, folder: Path, case: Case, target: Target):
        self.model = target.model
        config = json.loads((folder / "config.json").read_text())
        whole = self.module().MiMoForCausalLM(MimoConfig.from_dict(config))
        load(whole, tensors_of(folder), {})
        self.layer = whole.model.mtp_layers[0]
        for module in self.layer.modules():
            if hasattr(module, "config"):
                module.config._attn_implementation = "eager"

    def chain(self, context, states, path):
        """Give drafted rows the states that the layer returned for the rows before them."""
        h, result = states[None], []
        for length in range(len(path) + 1):
            text, count = context + list(path[:length]), h.shape[1]
            positions = torch.arange(count)[None]
            mask = torch.full((count, count), float("-inf"), dtype=h.dtype).triu(1)
            out = self.layer(
                input_embeds=self.model.model.embed_tokens(torch.tensor([text[1:]])),
                hidden_states=h,
                attention_mask=mask[None, None],
                position_ids=positions,
                position_embeddings=self.model.model.rotary_emb(h, positions),
            )
            result.append(self.model.lm_head(out)[0, -1])
            h = torch.cat([h, out[:, -1:]], 1)
        return result


class MimoConfig(Qwen2Config):
    """MiMo's configuration: that of Qwen2 with a number of layers to predict with."""

    model_type = "mimo"
    num_nextn_predict_layers: int = 0
    head_dim: int | None = None


class Medusa(Peer):
    """The Medusa repository's model with its own heads' matrices (1.0)."""

    made_by = "FasterDecoding/Medusa e2a5d20, MedusaModelLlama.forward"
    how = "from scratch"
    module = "medusa_model"
    options: dict[str, Any] = {"medusa_forward": True}

    @classmethod
    def imported(cls) -> types.ModuleType:
        """Import the repository's module over transformers' own decoders.

        Its copies of these decoders need a transformers of 2023, and its tokenizer a hub.
        """
        sys.path.insert(0, str(SOURCES / "Medusa"))
        for name in ("Llama", "Mistral"):
            module = types.ModuleType(f"medusa.model.modeling_{name.lower()}_kv")
            setattr(module, f"{name}ForCausalLM", LlamaForCausalLM)
            sys.modules[module.__name__] = module
        module = importlib.import_module(f"medusa.model.{cls.module}")
        module.AutoTokenizer = types.SimpleNamespace(from_pretrained=lambda *args, **kwargs: None)
        return module

    @classmethod
    def build(cls, config: dict[str, Any], base: dict[str, Any]) -> nn.Module:
        """Return a model of two configurations."""
        settings = LlamaConfig.from_dict(base)
        settings.medusa_num_heads = config["medusa_num_heads"]
        settings.medusa_num_layers = config["medusa_num_layers"]
        return cls.imported().MedusaModelLlama(settings)

    @classmethod
    def template(cls, case: Case, target: dict[str, Any]) -> tuple[dict[str, Any], Shapes]:
        """Return the configuration as it was published, and the shapes of the heads."""
        config = {**case.config, "base_model_name_or_path": case.target}
        return config, shapes(cls.build(config, target).medusa_head)

    def __init__(self, folder: Path, case: Case, target: Target):
        config = json.loads((folder / "config.json").read_text())
        self.model = self.build(config, target.model.config.to_dict())
        load(self.model.medusa_head, tensors_of(folder), {})
        self.model.model, self.model.lm_head = target.model.model, target.model.lm_head

    def chain(self, context, states, path):
        """Read head k at the last token whose state the target has."""
        ids = torch.tensor([context[:-1]])
        logits = self.model(ids, **self.options)
        return [logits[i, 0, -1] for i in range(len(path) + 1)]


class MedusaLegacy(Medusa):
    """What the repository's trainer writes: heads that use the target's matrix (`version` 2)."""

    made_by = "FasterDecoding/Medusa e2a5d20, medusa_model_legacy.MedusaModel.forward"
    module = "medusa_model_legacy"
    options: dict[str, Any] = {}

    @classmethod
    def build(cls, config, base):
        """Return a model of two configurations."""
        main = LlamaForCausalLM(LlamaConfig.from_dict(base))
        heads, layers = config["medusa_num_heads"], config["medusa_num_layers"]
        return cls.imported().MedusaModel(main, heads, layers)

    def __init__(self, folder: Path, case: Case, target: Target):
        config = json.loads((folder / "config.json").read_text())
        self.model = self.build(config, target.model.config.to_dict())
        load(self.model.medusa_head, tensors_of(folder), {})
        self.model.base_model = target.model


PEERS: dict[str, type[Peer]] = {
    "speculators-eagle3": SpeculatorsEagle3,
    "specforge": Specforge,
    "safeailab-eagle3": SafeailabEagle3,
    "safeailab-eagle1": SafeailabEagle1,
    "transformers-mtp": TransformersMtp,
    "speculators-mtp": SpeculatorsMtp,
    "native-mtp": NativeMtp,
    "mimo": Mimo,
    "medusa": Medusa,
    "medusa-legacy": MedusaLegacy,
}
