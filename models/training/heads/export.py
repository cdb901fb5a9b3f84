"""Export a trained head as a folder with config.json and model.safetensors in bf16.

A tap draft has the draft model's config and tensors, the numbers of its taps, and ``fc`` and
``fc_norm``. An EAGLE-3 head is written in one of the two published layouts. Taps are numbered
by layers passed: k = the state after k layers, the last before the final norm. A DSpark head has
DeepSpec's layout, which counts the layers from 0: k = the state after k + 1 layers. A draft model
gets its tokenizer, too.
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from evaluate import HERE, load_folder
from export import configs
from heads.dspark import BLOCK, LAYERS, RANK, DSpark
from heads.parts import TAPS
from heads.tap_draft import DraftModel, TapDraft
from heads.tau import load_head
from heads.train import HEADS

LAYOUTS = "safeailab", "speculators"
TOKENIZER = "tokenizer.json", "tokenizer_config.json", "generation_config.json"
FEATURE_KEYS = {"norm_before_residual": False, "norm_before_fc": False, "fc_norm": True}


def tap_config(llama: dict, width: int, taps: tuple[int, ...] = TAPS) -> dict:
    """Return a tap draft's config."""
    return {
        **llama,
        "architectures": ["TapDraftForCausalLM"],
        "model_type": "tap_draft",
        "target_hidden_size": width,
        "eagle_aux_hidden_state_layer_ids": list(taps),
    }


def safeailab_config(llama: dict, width: int, taps: tuple[int, ...]) -> dict:
    """Return an EAGLE-3 head's config with every key at the top level.

    It leaves out ``norm_output``: without this key all readers have the norm before the head matrix
    and feed back the state before it, but in SpecForge 0.2 "false" means no norm at all.
    """
    return {
        **llama,
        **FEATURE_KEYS,
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": llama["vocab_size"],
        "target_hidden_size": width,
        "num_aux_hidden_states": len(taps),
        "eagle_aux_hidden_state_layer_ids": list(taps),
        "tie_word_embeddings": False,
    }


def speculators_config(llama: dict, width: int, taps: tuple[int, ...]) -> dict:
    """Return an EAGLE-3 head's config with the layer's own part nested."""
    layer = {k: v for k, v in llama.items() if k not in ("architectures", "use_cache")}
    layer |= {"num_hidden_layers": 1, "tie_word_embeddings": False}
    proposal = {"proposal_type": "greedy", "speculative_tokens": 4}
    return {
        **FEATURE_KEYS,
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.9.0",
        "draft_vocab_size": llama["vocab_size"],
        "target_hidden_size": width,
        "eagle_aux_hidden_state_layer_ids": list(taps),
        "norm_output": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "transformer_layer_config": layer,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"name_or_path": "../target", "architectures": ["LlamaForCausalLM"]},
        },
    }


def dspark_config(llama: dict, width: int, head: DSpark) -> dict:
    """Return a DSpark head's config; the head drafts the token after each row."""
    return {
        **llama,
        "architectures": ["Qwen3DSparkModel"],
        "model_type": "qwen3",
        "num_hidden_layers": LAYERS,
        "layer_types": ["full_attention"] * LAYERS,
        "target_hidden_size": width,
        "target_layer_ids": [tap - 1 for tap in head.taps],
        "block_size": BLOCK,
        "mask_token_id": head.mask,
        "markov_rank": RANK,
        "markov_head_type": "vanilla",
        "enable_confidence_head": True,
        "confidence_head_with_markov": True,
        "tie_word_embeddings": False,
    }


def layout_of(head: nn.Module, llama: dict, width: int, layout: str) -> tuple[dict, dict]:
    """Return config and tensors of a head."""
    weights = dict(head.state_dict())
    if isinstance(head, DraftModel):
        return llama, weights
    if isinstance(head, TapDraft):
        return tap_config(llama, width, head.taps), weights
    if isinstance(head, DSpark):
        weights["fc.weight"] = weights["fc.weight"] * weights.pop("scale")
        return dspark_config(llama, width, head), weights
    if layout == "speculators":
        return speculators_config(llama, width, head.taps), weights
    weights = {n.replace("layers.0.", "midlayer."): w for n, w in weights.items()}
    return safeailab_config(llama, width, head.taps), weights


def export(head: nn.Module, pair: Path, folder: Path, layout: str = LAYOUTS[0]) -> None:
    """Write a head for the target in ``pair``; files get their names when all are whole."""
    target = json.loads((pair / "target/config.json").read_text())
    llama = configs(head.config, target["bos_token_id"], target["eos_token_id"])["config.json"]
    config, weights = layout_of(head, llama, target["hidden_size"], layout)

    folder.mkdir(parents=True, exist_ok=True)
    copied = TOKENIZER if isinstance(head, DraftModel) else ()
    names = "model.safetensors", *copied, "config.json"
    staged = {name: folder / f".{name}" for name in names}
    weights = {name: p.detach().to(torch.bfloat16).contiguous() for name, p in weights.items()}
    save_file(weights, staged["model.safetensors"], metadata={"format": "pt"})
    staged["config.json"].write_text(json.dumps(config, indent=2) + "\n")
    for name in copied:
        shutil.copyfile(pair / "target" / name, staged[name])
    for name, path in staged.items():
        path.chmod(0o644)
        path.replace(folder / name)


def main() -> None:
    """Export a trained head."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("head", choices=HEADS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layout", choices=LAYOUTS, default=LAYOUTS[0], help="of an EAGLE-3 head")
    parser.add_argument("--work", type=Path, default=Path("work"))
    args = parser.parse_args()

    target, draft = (load_folder(HERE.parent / name) for name in ("target", "draft"))
    head = load_head(args.head, args.work / f"{args.head}.pt", target, draft)
    export(head, HERE.parent, args.folder, args.layout)
    total = sum(path.stat().st_size for path in args.folder.iterdir())
    print(f"{args.folder}: {total} bytes")


if __name__ == "__main__":
    main()
