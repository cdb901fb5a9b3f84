"""Write a tiny checkpoint that compressed-tensors has quantised, and the weights it stands for.

    pip install -r tests/quantised/requirements.txt
    python tests/quantised/make.py

The attention matrices become numbers of eight bits with a scale per output, and those of the
feed-forward block integers of four bits with a scale and a zero point per 32 inputs. The package
packs them and unpacks them again, with its scales in f32, so that no weight is rounded.
"""

import shutil
from pathlib import Path

import torch
from compressed_tensors.compressors import ModelCompressor
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).parent
TOKENIZER = HERE.parent / "families/llama/tokenizer.json"
FOLDER = HERE / "compressed_tensors"
CONFIG = LlamaConfig(
    vocab_size=48,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=64,
    tie_word_embeddings=True,
    bos_token_id=1,
    eos_token_id=2,
)
EIGHT = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}
FOUR = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": False}
QUANTISED = {
    "config_groups": {
        "attention": {
            "targets": ["re:.*self_attn.*"],
            "weights": EIGHT,
            "input_activations": {**EIGHT, "strategy": "token", "dynamic": True},
            "format": "float-quantized",
        },
        "mlp": {"targets": ["re:.*mlp.*_proj"], "weights": FOUR, "format": "pack-quantized"},
    },
    "ignore": ["lm_head"],
}


def set_scales(module: nn.Module) -> None:
    """Set scales and zero points by the least and the largest weight of each group."""
    args = module.quantization_scheme.weights
    groups = module.weight.unflatten(-1, (-1, args.group_size or module.weight.shape[-1]))
    scale, zero = calculate_qparams(groups.amin(-1), groups.amax(-1), args)
    module.weight_scale.data = scale.to(torch.bfloat16)
    if not args.symmetric:
        module.weight_zero_point.data = zero.round().to(torch.int8)


def exact_weight(module: nn.Module) -> Tensor:
    """Unpack a matrix with its scales in f32."""
    scheme = module.quantization_scheme
    state = {name: tensor.data for name, tensor in module.named_parameters()}
    state["weight_scale"] = state["weight_scale"].float()
    compressor = BaseCompressor.get_value_from_registry(scheme.format)
    return compressor.decompress(state, scheme)["weight"]


def main() -> None:
    """Write the folder."""
    torch.manual_seed(1)
    model = LlamaForCausalLM(CONFIG).to(torch.bfloat16)
    for name, parameter in model.named_parameters():
        if "proj" in name:
            noise = torch.randn(parameter.shape) * 1.5 / parameter.shape[-1] ** 0.5
            parameter.data = noise.to(torch.bfloat16)
        elif "embed" in name:
            parameter.data = torch.randn(parameter.shape).to(torch.bfloat16)
    apply_quantization_config(model, QuantizationConfig.model_validate(QUANTISED))
    modules = {
        name: module
        for name, module in model.named_modules()
        if getattr(module, "quantization_scheme", None) is not None
    }
    assert len(modules) == 7
    for module in modules.values():
        set_scales(module)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    FOLDER.mkdir(exist_ok=True)
    CONFIG.architectures = ["LlamaForCausalLM"]
    CONFIG.dtype = torch.bfloat16
    CONFIG.save_pretrained(FOLDER)
    compressor.update_config(FOLDER)
    shutil.copy(TOKENIZER, FOLDER / "tokenizer.json")
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    # The head is the embedding.
    del tensors["lm_head.weight"]
    save_file(tensors, FOLDER / "model.safetensors")
    exact = {f"{name}.weight": exact_weight(one).contiguous() for name, one in modules.items()}
    assert all(tensor.dtype == torch.float32 for tensor in exact.values())
    save_file(exact, FOLDER / "dequantised.safetensors")


if __name__ == "__main__":
    main()
