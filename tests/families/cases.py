"""The cases: one small shape per family, with every setting at a value that matters."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Generator, Tensor

VOCAB = 48
BOS, EOS = 1, 2
POSITIONS = 64


@dataclass(frozen=True)
class Case:
    """One checkpoint.

    `config` holds the arguments of the configuration class of `family`. `older` are keys
    that its 2024 spelling adds or replaces. `lengths` are the lengths of the texts whose
    logits are stored, and `tokens` is the size of the tokenizer. An `example` is of a
    family that only a page of the documentation adds. `draw` says which random weights: some
    with which no router is undecided, or that may be rounded. `published` puts the
    tensors that published files have in place of those that transformers writes.
    """

    name: str
    family: str
    config: dict[str, Any]
    older: dict[str, Any] = field(default_factory=dict)
    bf16: bool = True
    lengths: tuple[int, ...] = (36,)
    tokens: int = VOCAB
    example: bool = False
    draw: int = 0
    published: Callable[[dict[str, Tensor], Generator], None] | None = None

    @property
    def folder(self) -> str:
        """The folder of its files."""
        return f"examples/{self.name}" if self.example else self.name


def shape(
    hidden: int,
    layers: int,
    heads: tuple[int, int],
    head_dim: int | None = None,
    inner: int = 44,
    **more: Any,
) -> dict[str, Any]:
    """Return the settings that all families share; `heads` are those of q and of k."""
    config = {
        "vocab_size": VOCAB,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "max_position_embeddings": POSITIONS,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": None,
    }
    if head_dim is not None:
        config["head_dim"] = head_dim
    return {**config, **more}


def rope(theta: float, kind: str = "default", **more: Any) -> dict[str, Any]:
    """Return rotary settings in the newer spelling."""
    return {"rope_type": kind, "rope_theta": theta, **more}


def has_offset(family: str) -> bool:
    """Return whether the norms of a family add 1 to their weights."""
    return family.startswith("gemma") and family != "gemma4_text"


def by_layer(full: dict[str, Any], sliding: dict[str, Any]) -> dict[str, Any]:
    """Return rotary settings that differ between the two kinds of layers."""
    return {"full_attention": full, "sliding_attention": sliding}


# The 16 positions that they were trained on are fewer than the longer text has.
SHORT = [1.0, 1.15, 1.4, 1.9]
LONG = [1.05, 1.9, 3.7, 8.5]

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    # The waves of the 8 frequencies are 6, 32, 167 … positions long: one shorter than
    # 64 / 4, one between, the others longer than 64 / 1.
    "original_max_position_embeddings": 64,
}

CASES = [
    Case(
        "llama",
        "llama",
        shape(24, 2, (4, 2), rope_parameters=rope(1e4), tie_word_embeddings=True),
        bf16=False,
    ),
    Case(
        "llama3",
        "llama",
        shape(
            36,
            2,
            (3, 1),
            16,
            max_position_embeddings=512,
            rms_norm_eps=1e-5,
            rope_parameters=rope(5e5, "llama3", **LLAMA3),
        ),
    ),
    Case(
        "llama_linear",
        "llama",
        shape(24, 2, (4, 2), rope_parameters=rope(1e4, "linear", factor=4.0)),
    ),
    Case(
        "llama_bias",
        "llama",
        shape(
            24,
            2,
            (4, 4),
            rms_norm_eps=0.05,
            rope_parameters=rope(1e3),
            attention_bias=True,
            mlp_bias=True,
        ),
    ),
    Case(
        "llama_yarn",
        "llama",
        shape(
            24,
            2,
            (3, 1),
            12,
            max_position_embeddings=128,
            rope_parameters=rope(1e4, "yarn", factor=4.0, original_max_position_embeddings=32),
        ),
    ),
    Case(
        "llama_yarn_explicit",
        "llama",
        shape(
            24,
            2,
            (3, 1),
            12,
            max_position_embeddings=128,
            rope_parameters=rope(
                1e4,
                "yarn",
                factor=4.0,
                original_max_position_embeddings=32,
                attention_factor=1.3,
                beta_fast=4.0,
                beta_slow=0.25,
                truncate=False,
            ),
        ),
    ),
    Case(
        "mistral",
        "mistral",
        shape(32, 3, (4, 2), 10, rope_parameters=rope(1e6), sliding_window=5),
    ),
    Case(
        "qwen2",
        "qwen2",
        shape(30, 2, (3, 1), rope_parameters=rope(1e6), tie_word_embeddings=True),
        older={"use_sliding_window": False, "sliding_window": 5, "max_window_layers": 1},
        tokens=VOCAB - 3,
    ),
    Case(
        "qwen2_window",
        "qwen2",
        shape(
            24,
            4,
            (4, 2),
            rope_parameters=rope(1e4),
            use_sliding_window=True,
            sliding_window=6,
            max_window_layers=1,
        ),
    ),
    Case(
        "qwen3",
        "qwen3",
        shape(24, 3, (4, 2), 10, rope_parameters=rope(1e6), tie_word_embeddings=True),
        older={"use_sliding_window": False, "sliding_window": 5, "max_window_layers": 1},
        bf16=False,
    ),
    Case(
        "qwen3_window",
        "qwen3",
        shape(
            24,
            4,
            (3, 1),
            10,
            rope_parameters=rope(1e4),
            attention_bias=True,
            use_sliding_window=True,
            sliding_window=5,
            max_window_layers=2,
        ),
    ),
    Case(
        "gemma",
        "gemma",
        shape(24, 2, (3, 1), 10, rms_norm_eps=0.05, rope_parameters=rope(1e4)),
        older={"hidden_act": "gelu", "hidden_activation": None},
        example=True,
    ),
    Case(
        "gemma2",
        "gemma2",
        shape(
            24,
            4,
            (4, 2),
            10,
            rope_parameters=rope(1e4),
            sliding_window=5,
            query_pre_attn_scalar=14,
            attn_logit_softcapping=2.0,
            final_logit_softcapping=4.0,
        ),
        older={"hidden_act": "gelu_pytorch_tanh", "cache_implementation": "hybrid"},
    ),
    Case(
        "gemma3",
        "gemma3_text",
        shape(
            24,
            6,
            (3, 1),
            10,
            rope_parameters=by_layer(rope(1e6), rope(1e4)),
            sliding_window=6,
            query_pre_attn_scalar=14,
            layer_types=(["sliding_attention"] * 2 + ["full_attention"]) * 2,
        ),
        older={"sliding_window_pattern": 3, "cache_implementation": "hybrid"},
    ),
    Case(
        "gemma3_linear",
        "gemma3_text",
        shape(
            24,
            4,
            (4, 2),
            10,
            rope_parameters=by_layer(rope(1e4, "linear", factor=8.0), rope(1e2)),
            sliding_window=7,
            query_pre_attn_scalar=10,
            final_logit_softcapping=4.0,
            layer_types=["sliding_attention", "full_attention"] * 2,
        ),
        older={"sliding_window_pattern": 2, "cache_implementation": "hybrid"},
    ),
    Case(
        "phi3",
        "phi3",
        shape(32, 3, (4, 2), rope_parameters=rope(1e4), sliding_window=6),
    ),
    Case(
        "phi3_longrope",
        "phi3",
        shape(
            24,
            2,
            (3, 3),
            original_max_position_embeddings=16,
            rope_parameters=rope(1e4, "longrope", short_factor=SHORT, long_factor=LONG),
        ),
        lengths=(16, 34),
    ),
    Case(
        "phi4_mini",
        "phi3",
        shape(
            32,
            2,
            (4, 2),
            rope_parameters=rope(1e4, partial_rotary_factor=0.75),
            tie_word_embeddings=True,
        ),
    ),
    Case(
        "phi4_mini_longrope",
        "phi3",
        shape(
            32,
            2,
            (4, 2),
            original_max_position_embeddings=16,
            sliding_window=20,
            rope_parameters=rope(
                1e4,
                "longrope",
                partial_rotary_factor=0.75,
                short_factor=SHORT[:3],
                long_factor=LONG[:3],
            ),
            tie_word_embeddings=True,
        ),
        lengths=(16, 34),
    ),
    Case(
        "olmo2",
        "olmo2",
        shape(24, 3, (4, 2), rms_norm_eps=1e-2, rope_parameters=rope(5e5)),
        bf16=False,
    ),
    Case(
        "smollm3",
        "smollm3",
        shape(
            24,
            4,
            (4, 2),
            rope_parameters=rope(5e6),
            no_rope_layer_interval=2,
            use_sliding_window=False,
        ),
    ),
    Case(
        "smollm3_window",
        "smollm3",
        shape(
            24,
            4,
            (4, 1),
            rope_parameters=rope(1e4),
            no_rope_layers=[0, 1, 1, 0],
            use_sliding_window=True,
            sliding_window=6,
            tie_word_embeddings=False,
        ),
    ),
]
