"""Which checkpoints of tests/families are converted, and what is changed before."""

from dataclasses import dataclass, field
from math import pi
from typing import Any

# The bounds of YaRN's ramp are rounded by llama.cpp, but not by transformers for gpt-oss. With
# this base and the betas 32 and 1 the upper one is 2 anyway, and the lower one below 0.
ORIGINAL = 128
WHOLE_RAMP = {
    "rope_type": "yarn",
    "rope_theta": (1 + 1e-6) * (ORIGINAL / (2 * pi)) ** 2,
    "factor": 4.0,
    "original_max_position_embeddings": ORIGINAL,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
}


@dataclass(frozen=True)
class Case:
    """A folder of tests/families.

    `changes` are keys of the configuration that get another value before the conversion:
    llama.cpp has these values in its code, so that files do not hold them. `left_out` is a layer
    that is taken out. `positions` is the number of positions at which llama.cpp computes what
    the file says, if that is not all of them. `near` is the most by which llama.cpp may differ
    from transformers there, relative to the largest logit.
    """

    folder: str
    changes: dict[str, Any] = field(default_factory=dict)
    left_out: int | None = None
    positions: int | None = None
    near: float = 1e-5


# llama.cpp looks up gelu in a table of f16.
GELU = 1e-3
# It rounds the inputs of products with MXFP4 to eight bits.
BLOCKS = 0.1

CASES = [
    Case("llama"),
    Case("llama3"),
    Case("llama_linear"),
    Case("llama_bias"),
    Case("llama_yarn"),
    Case("qwen2"),
    Case("qwen3"),
    # Files of qwen3moe have experts in all layers.
    Case("qwen3_moe", {"mlp_only_layers": []}, left_out=1),
    # Files of the architecture llama have no window.
    Case("mixtral", {"sliding_window": None}),
    Case(
        "gpt_oss",
        {
            "swiglu_alpha": 1.702,
            "swiglu_limit": 7.0,
            "rope_parameters": WHOLE_RAMP,
            "max_position_embeddings": 4 * ORIGINAL,
        },
    ),
    Case("gpt_oss_mxfp4", {"rope_parameters": WHOLE_RAMP}, near=BLOCKS),
    Case("gemma2", {"query_pre_attn_scalar": 10}, near=GELU),
    Case(
        "gemma3",
        {
            "query_pre_attn_scalar": 10,
            "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
        near=GELU,
    ),
    # llama.cpp ignores the window of Phi-3.
    Case("phi3", {"sliding_window": 12}, positions=12),
    # It chooses between short and long factors by the length of its cache, 256 at least.
    Case(
        "phi4_mini_longrope",
        {
            "sliding_window": None,
            "original_max_position_embeddings": 256,
            "max_position_embeddings": 1024,
        },
    ),
    Case("olmo2"),
    Case("smollm3", {"no_rope_layers": [1, 1, 1, 0], "no_rope_layer_interval": 4}),
]
