"""The targets and the heads: small shapes, with every setting at a value that matters."""

from dataclasses import dataclass, field
from typing import Any

VOCAB, DRAFT_VOCAB, MTP_VOCAB = 96, 40, 48
BOS, EOS = 1, 2
ROUNDS = 2

EVERY_VARIANT = (
    "feedback_pre",
    "feedback_post",
    "positions_plus_one",
    "drafted_plus_one",
    "first_row_zero",
    "extra_first_row",
)


@dataclass(frozen=True)
class Case:
    """One head.

    `peer` is the reference that computes its logits. `layout` names the tensors, for the
    formula. `config` are keys of config.json; `layer` those of a nested configuration of
    the decoder layer. `taps` are layers of the target, or None for its state after the last
    norm. A case without `target` has one of its own in the same folder, of which `config`
    is the configuration. `seed` replaces the name as the seed of weights and prompt.
    """

    name: str
    peer: str
    layout: str
    target: str | None
    config: dict[str, Any] = field(default_factory=dict)
    layer: dict[str, Any] = field(default_factory=dict)
    taps: tuple[int, ...] | None = None
    own_embedding: bool = False
    bf16: bool = True
    copies: bool = False
    heads: int | None = None
    file: str = "model.safetensors"
    variants: tuple[str, ...] = ()
    seed: str = ""


def decoder(
    family: str,
    architecture: str,
    layers: int,
    hidden: int,
    heads: tuple[int, int],
    head_dim: int,
    inner: int,
    **more: Any,
) -> dict[str, Any]:
    """Return a target's configuration; `heads` are those of q and of k."""
    return {
        "architectures": [architecture],
        "model_type": family,
        "vocab_size": VOCAB,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        **more,
    }


TARGETS = {
    "llama": decoder("llama", "LlamaForCausalLM", 7, 32, (4, 2), 8, 24),
    "qwen3": decoder("qwen3", "Qwen3ForCausalLM", 4, 24, (4, 2), 12, 24, tie_word_embeddings=True),
}


def layer(
    inner: int,
    heads: tuple[int, int] = (4, 2),
    head_dim: int = 12,
    count: int = 1,
    eps: float = 1e-5,
    theta: float = 10000.0,
    **more: Any,
) -> dict[str, Any]:
    """Return the keys of a head's own decoder layer."""
    return {
        "model_type": "llama",
        "intermediate_size": inner,
        "num_hidden_layers": count,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": head_dim,
        "rms_norm_eps": eps,
        "rope_theta": theta,
        **more,
    }


def speculators(name: str, target: str, taps: tuple[int, ...], **more: Any) -> Case:
    """Return an EAGLE-3 head as speculators writes it."""
    keys = ("layer", "own_embedding", "variants", "default_taps")
    parts = {key: more.pop(key) for key in keys if key in more}
    ids = None if parts.pop("default_taps", False) else list(taps)
    config = {"draft_vocab_size": DRAFT_VOCAB, "eagle_aux_hidden_state_layer_ids": ids, **more}
    parts.setdefault("layer", layer(24))
    return Case(name, "speculators-eagle3", "eagle3", target, config, taps=taps, **parts)


def plain(inner: int, heads: tuple[int, int] = (4, 2), **more: Any) -> dict[str, Any]:
    """Return the keys of a head in the style of the EAGLE repository: no head_dim, no theta."""
    return {
        "intermediate_size": inner,
        "num_hidden_layers": 1,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "rms_norm_eps": 1e-5,
        **more,
    }


MTP = {"vocab_size": MTP_VOCAB, "rope_theta": 10000.0}

# The fields of the recipe's LlamaConfig.
TAP_DRAFT = {
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": VOCAB,
    "max_position_embeddings": 128,
    "rope_theta": 10000.0,
    "rms_norm_eps": 0.05,
}

CASES = [
    speculators("eagle3_plain", "llama", (2, 3, 4), variants=EVERY_VARIANT),
    speculators(
        "eagle3_norm_before_residual",
        "llama",
        (2, 3, 4),
        default_taps=True,
        norm_before_residual=True,
    ),
    speculators("eagle3_norm_output", "llama", (1, 4, 7), norm_output=True),
    speculators("eagle3_fc_norm", "qwen3", (1, 2, 3), fc_norm=True),
    speculators("eagle3_norm_before_fc", "qwen3", (1, 2, 4), norm_before_fc=True),
    speculators("eagle3_full_vocabulary", "qwen3", (0, 1, 3, 4), draft_vocab_size=VOCAB),
    speculators(
        "eagle3_own_embedding",
        "qwen3",
        (1, 2, 3),
        own_embedding=True,
        norm_before_fc=True,
        norm_before_residual=True,
        norm_output=True,
    ),
    speculators(
        "eagle3_two_layers",
        "qwen3",
        (1, 3),
        layer=layer(24, count=2, eps=0.05, theta=500000.0, attention_bias=True),
    ),
    speculators(
        "eagle3_qwen3",
        "qwen3",
        (1, 2, 3),
        layer=layer(24, head_dim=10, theta=1e6, model_type="qwen3"),
    ),
    Case(
        "eagle3_safeailab",
        "safeailab-eagle3",
        "eagle3",
        "llama",
        plain(24, draft_vocab_size=DRAFT_VOCAB),
        taps=(2, 3, 4),
    ),
    Case(
        "eagle3_narrow",
        "safeailab-eagle3",
        "eagle3",
        "llama",
        plain(24, draft_vocab_size=DRAFT_VOCAB, hidden_size=24, target_hidden_size=32),
        taps=(2, 3, 4),
        own_embedding=True,
    ),
    Case(
        "eagle3_specforge",
        "specforge",
        "eagle3",
        "llama",
        plain(
            24,
            (2, 1),
            head_dim=14,
            rope_theta=500000.0,
            draft_vocab_size=DRAFT_VOCAB,
            fc_norm=True,
            norm_output=True,
            eagle_config={
                "eagle_aux_hidden_state_layer_ids": [0, 2, 5],
                "use_aux_hidden_state": True,
            },
        ),
        taps=(1, 3, 6),
    ),
    Case(
        "eagle1",
        "safeailab-eagle1",
        "eagle1",
        "llama",
        plain(24),
        own_embedding=True,
    ),
    Case(
        "eagle1_no_bias",
        "safeailab-eagle1",
        "eagle1",
        "qwen3",
        plain(24, num_hidden_layers=2, rope_theta=1e6, bias=False, qkv_bias=True),
        seed="eagle1 without a bias",
    ),
    Case(
        "mtp_one_layer",
        "transformers-mtp",
        "deepseek",
        None,
        decoder(
            "llama",
            "LlamaForCausalLM",
            3,
            24,
            (4, 2),
            6,
            24,
            num_nextn_predict_layers=1,
            **MTP,
        ),
        copies=True,
        variants=EVERY_VARIANT,
    ),
    Case(
        "mtp_three_layers",
        "transformers-mtp",
        "deepseek",
        None,
        decoder(
            "llama",
            "LlamaForCausalLM",
            2,
            24,
            (4, 2),
            8,
            24,
            num_nextn_predict_layers=3,
            **MTP,
        ),
        heads=3,
    ),
    Case(
        "mtp_qwen3",
        "native-mtp",
        "qwen",
        None,
        decoder(
            "qwen3",
            "Qwen3ForCausalLM",
            2,
            24,
            (4, 2),
            8,
            24,
            **(MTP | {"tie_word_embeddings": True}),
            mtp_num_hidden_layers=1,
            mtp_use_dedicated_embeddings=False,
        ),
    ),
    Case(
        "mtp_speculators",
        "speculators-mtp",
        "speculators",
        "qwen3",
        layer=layer(24, head_dim=12, theta=1e6, model_type="qwen3"),
    ),
    Case(
        "mtp_mimo",
        "mimo",
        "mimo",
        None,
        decoder(
            "mimo",
            "MiMoForCausalLM",
            2,
            24,
            (3, 1),
            8,
            24,
            attention_bias=True,
            use_sliding_window=False,
            sliding_window=128,
            max_window_layers=2,
            num_nextn_predict_layers=1,
            **(MTP | {"rope_theta": 640000}),
        ),
        variants=("first_row_zero",),
    ),
    Case(
        "medusa",
        "medusa",
        "medusa",
        "llama",
        {"medusa_num_heads": 2, "medusa_num_layers": 1},
        heads=2,
    ),
    Case(
        "medusa_two_blocks",
        "medusa",
        "medusa",
        "llama",
        {"medusa_num_heads": 2, "medusa_num_layers": 2},
        heads=2,
    ),
    Case(
        "medusa_without_matrices",
        "medusa-legacy",
        "medusa",
        "llama",
        {"medusa_num_heads": 2, "medusa_num_layers": 1, "version": "2"},
        heads=2,
        bf16=False,
        file="medusa_lm_head.safetensors",
    ),
    Case("tap_draft", "recipe", "tap_draft", "llama", TAP_DRAFT, taps=(3, 5, 7)),
]
