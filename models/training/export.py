"""Export a checkpoint as a Hugging Face folder: bf16 safetensors, configs, tokenizer."""

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from checkpoint import load_model
from model import LlamaConfig
from tokenizer import BOS, EOS


def configs(shape: LlamaConfig, bos: int, eos: int) -> dict[str, dict]:
    """Return the JSON files that describe the model to a loader."""
    ids = {"bos_token_id": bos, "eos_token_id": eos}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **shape.to_dict(),
        **ids,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "mlp_bias": False,
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "clean_up_tokenization_spaces": False,
        "model_max_length": shape.max_position_embeddings,
    }
    return {
        "config.json": config,
        "generation_config.json": {**ids, "do_sample": True, "temperature": 1.0},
        "tokenizer_config.json": tokenizer_config,
    }


def main() -> None:
    """Write every file next to its final name, then rename it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, default=Path("work"))
    args = parser.parse_args()

    model, _ = load_model(args.checkpoint, "cpu")
    tokenizer = Tokenizer.from_file(str(args.work / "tokenizer.json"))
    files = configs(model.config, tokenizer.token_to_id(BOS), tokenizer.token_to_id(EOS))
    weights = {name: p.detach().to(torch.bfloat16) for name, p in model.state_dict().items()}

    staging = args.folder.with_name(f".{args.folder.name}.staging")
    staging.mkdir(parents=True, exist_ok=True)
    save_file(weights, staging / "model.safetensors", metadata={"format": "pt"})
    shutil.copyfile(args.work / "tokenizer.json", staging / "tokenizer.json")
    for name, content in files.items():
        (staging / name).write_text(json.dumps(content, indent=2) + "\n")
    args.folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(staging.iterdir()):
        path.chmod(0o644)
        path.replace(args.folder / path.name)
    staging.rmdir()


if __name__ == "__main__":
    main()
