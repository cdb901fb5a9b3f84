"""The cases of GPT-2, whose keys have other names."""

from typing import Any

from cases import BOS, EOS, POSITIONS, VOCAB, Case
from published import gpt2_names


def gpt2(**more: Any) -> dict[str, Any]:
    """Return the settings that both cases share."""
    return {
        "vocab_size": VOCAB,
        "n_positions": POSITIONS,
        "n_embd": 24,
        "n_layer": 2,
        "n_head": 3,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        **more,
    }


GPT2 = [
    Case("gpt2", "gpt2", gpt2(), older={"n_ctx": POSITIONS}, published=gpt2_names),
    Case(
        "gpt2_prefixed",
        "gpt2",
        gpt2(n_inner=52, layer_norm_epsilon=0.02, scale_attn_by_inverse_layer_idx=True),
        older={"n_ctx": POSITIONS, "torch_dtype": "bfloat16"},
    ),
]
