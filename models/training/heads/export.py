"""Export a trained head as a folder with config.json and model.safetensors in bf16.

A tap draft has the draft model's config and tensors, the numbers of its taps, and ``fc`` and
``fc_norm``. An EAGLE-3 head is written in one of the two published layouts. Taps are numbered
by layers passed: k = the state after k layers, the last before the final norm.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import nn

from evaluate import HERE, load_folder
from export import configs
from heads.parts import TAPS
from heads.tap_draft import TapDraft
from heads.tau import load_head
from heads.train import HEADS
from tokenizer import BOS, EOS

LAYOUTS = "safeailab", "speculators"
FEATURE_KEYS = {"norm_before_residual": False, "norm_before_fc": False, "fc_norm": True}


def tap_config(llama: dict, width: int) -> dict:
    """Return a tap draft's config."""
    return {
        **llama,
        "architectures": ["TapDraftForCausalLM"],
        "model_type": "tap_draft",
        "target_hidden_size": width,
        "eagle_aux_hidden_state_layer_ids": list(TAPS),
    }


def safeailab_config(llama: dict, width: int) -> dict:
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
        "num_aux_hidden_states": len(TAPS),
        "eagle_aux_hidden_state_layer_ids": list(TAPS),
        "tie_word_embeddings": False,
    }


def speculators_config(llama: dict, width: int) -> dict:
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
        "eagle_aux_hidden_state_layer_ids": list(TAPS),
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


def export(head: nn.Module, width: int, folder: Path, layout: str = LAYOUTS[0]) -> None:
    """Write a head for a target of that width; both files get their names when they are whole."""
    tokenizer = Tokenizer.from_file(str(HERE.parent / "draft/tokenizer.json"))
    ids = (tokenizer.token_to_id(name) for name in (BOS, EOS))
    llama = configs(head.config, *ids)["config.json"]
    weights = {name: p.detach().to(torch.bfloat16) for name, p in head.state_dict().items()}
    if isinstance(head, TapDraft):
        config = tap_config(llama, width)
    elif layout == "speculators":
        config = speculators_config(llama, width)
    else:
        config = safeailab_config(llama, width)
        weights = {n.replace("layers.0.", "midlayer."): w for n, w in weights.items()}

    folder.mkdir(parents=True, exist_ok=True)
    staged = {name: folder / f".{name}" for name in ("model.safetensors", "config.json")}
    save_file(weights, staged["model.safetensors"], metadata={"format": "pt"})
    staged["config.json"].write_text(json.dumps(config, indent=2) + "\n")
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
    export(head, target.config.hidden_size, args.folder, args.layout)
    total = sum(path.stat().st_size for path in args.folder.iterdir())
    print(f"{args.folder}: {total} bytes")


if __name__ == "__main__":
    main()
