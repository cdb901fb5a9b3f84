"""Drafters that give all tokens of a draft in one pass, in their published layouts."""

from dataclasses import dataclass
from typing import Any

from cases import DRAFT_VOCAB, VOCAB, Case, layer

# A token that no context and no draft has.
MASK = 0
WIDTH = 6


@dataclass(frozen=True)
class BlockCase(Case):
    """One drafter of blocks.

    `also` are further references that must compute the same. `count` is the number of drafted
    tokens of a pass whose rows all draft one.
    """

    also: tuple[str, ...] = ()
    count: int = 0


def drafter(inner: int, count: int = 2, **more: Any) -> dict[str, Any]:
    """Return the keys of a drafter's layers; most are of Qwen3's kind."""
    shape = {"heads": (4, 2), "head_dim": 10, "theta": 1e6, "model_type": "qwen3"}
    return layer(inner, **{**shape, "count": count, **more})


def dflash(name: str, peer: str, target: str, taps: tuple[int, ...], **more: Any) -> BlockCase:
    """Return a drafter in z-lab's layout; `own` are keys of its `dflash_config`."""
    parts = {key: more.pop(key) for key in ("also", "variants", "layer", "seed") if key in more}
    own = {"mask_token_id": MASK, "target_layer_ids": [k - 1 for k in taps]}
    own = {key: x for key, x in (own | more.pop("own", {})).items() if x is not None}
    size = {} if "block_size" in own else {"block_size": WIDTH}
    parts.setdefault("layer", drafter(20))
    layout = more.pop("layout", "zlab")
    config = {**size, "dflash_config": own, **more}
    return BlockCase(name, peer, layout, target, config, taps=taps, **parts)


def dspark(name: str, target: str, kind: str, taps: tuple[int, ...], **more: Any) -> BlockCase:
    """Return a drafter as DeepSpec writes it."""
    keys = ("own_embedding", "variants", "layer", "seed")
    parts = {key: more.pop(key) for key in keys if key in more}
    parts.setdefault("layer", drafter(20))
    config = {
        "block_size": WIDTH,
        "mask_token_id": MASK,
        "target_layer_ids": [k - 1 for k in taps],
        "num_anchors": 4,
        "markov_rank": 7,
        "markov_head_type": kind,
        "enable_confidence_head": True,
        "confidence_head_with_markov": True,
        **more,
    }
    return BlockCase(name, "deepspec", "deepspec", target, config, taps=taps, **parts)


def speculators(name: str, kind: str, target: str, taps: tuple[int, ...], **more: Any) -> BlockCase:
    """Return a drafter of blocks as speculators writes it."""
    parts = {key: more.pop(key) for key in ("variants", "layer", "seed") if key in more}
    parts.setdefault("layer", drafter(20))
    config = {
        "draft_vocab_size": DRAFT_VOCAB,
        "block_size": WIDTH,
        "aux_hidden_state_layer_ids": list(taps),
        "mask_token_id": MASK,
        "sliding_window_non_causal": False,
        "sample_from_anchor": False,
        **more,
    }
    layout = "speculators-block"
    return BlockCase(name, f"speculators-{kind}", layout, target, config, taps=taps, **parts)


def peagle(name: str, target: str, taps: tuple[int, ...], **more: Any) -> BlockCase:
    """Return a P-EAGLE head as speculators writes it."""
    ids = None if more.pop("default_taps", False) else list(taps)
    parts = {key: more.pop(key) for key in ("layer", "seed") if key in more}
    config = {
        "draft_vocab_size": DRAFT_VOCAB,
        "eagle_aux_hidden_state_layer_ids": ids,
        "mask_token_id": MASK,
        **more,
    }
    peer = "speculators-peagle"
    parts["own_embedding"] = True
    return BlockCase(name, peer, "peagle", target, config, taps=taps, count=WIDTH - 1, **parts)


SLIDING = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4}
BOTH = ("width_4", "causal", "anchor_first")

BLOCK_CASES = [
    dflash("dflash", "zlab", "qwen3", (1, 3), also=("zlab-pip", "specforge-dflash"), variants=BOTH),
    dflash(
        "dflash_default_taps",
        "zlab-pip",
        "llama",
        (2, 3, 5),
        own={"target_layer_ids": None, "block_size": WIDTH - 1},
        layer=drafter(20, 3, head_dim=12, attention_bias=True, eps=0.05),
    ),
    dflash(
        "dflash_causal",
        "zlab-pip",
        "llama",
        (1, 4, 6),
        is_causal=True,
        own={
            "input_embedding_scale": 1.75,
            "output_multiplier": 0.8,
            "final_logit_softcapping": 3.5,
        },
        variants=("width_4", "bidirectional"),
    ),
    dflash(
        "dflash_window",
        "zlab-pip",
        "llama",
        (1, 4, 6),
        layer=drafter(20, use_sliding_window=True, **SLIDING),
        variants=("width_4", "bidirectional", "window_by_anchor", "window_inclusive"),
    ),
    dflash(
        "dflash_specforge",
        "specforge-dflash",
        "qwen3",
        (2, 4),
        also=("zlab-pip",),
        layer=drafter(28, 3, use_sliding_window=True, **SLIDING)
        | {"layer_types": ["full_attention", *["sliding_attention"] * 2], "sliding_window": WIDTH},
    ),
    dflash(
        "dflash_sinks",
        "zlab-sinks",
        "qwen3",
        (1, 2, 4),
        own={
            "use_swa": True,
            "swa_window_size": 5,
            "attention_sink_bias": True,
            "attention_value_scale": 0.612,
        },
        variants=("width_4", "causal", "window_past"),
    ),
    BlockCase(
        "dflash_muse",
        "muse",
        "muse",
        "llama",
        {"block_size": WIDTH, "mask_token_id": MASK, "target_layer_ids": [0, 3, 5]},
        layer=drafter(20, theta=500000.0, **SLIDING),
        taps=(1, 4, 6),
        variants=("width_4", "window_by_row", "window_past"),
    ),
    speculators(
        "dflash_speculators",
        "dflash",
        "llama",
        (2, 3, 4),
        layer=drafter(20, use_sliding_window=True, **SLIDING),
        variants=("width_4", "causal", "window_by_row"),
    ),
    speculators(
        "dflash_speculators_window",
        "dflash",
        "qwen3",
        (0, 2, 4),
        draft_vocab_size=VOCAB,
        sliding_window_non_causal=True,
        layer=drafter(20, use_sliding_window=True, attention_bias=True, **SLIDING),
        variants=("width_4", "window_by_row"),
    ),
    dspark("dspark_vanilla", "qwen3", "vanilla", (1, 3), variants=("width_4", "fill_in")),
    dspark(
        "dspark_gated",
        "llama",
        "gated",
        (0, 3, 6),
        own_embedding=True,
        confidence_head_with_markov=False,
        variants=("width_4",),
    ),
    dflash(
        "dspark_specforge",
        "specforge-dspark",
        "qwen3",
        (1, 2, 4),
        layout="specforge",
        own={
            "projector_type": "dspark",
            "attention_mode": "gqa",
            "markov_rank": 7,
            "markov_head_type": "vanilla",
            "enable_confidence_head": True,
            "confidence_head_with_markov": True,
        },
    ),
    dspark(
        "dspark_rnn", "llama", "rnn", (2, 4), enable_confidence_head=False, variants=("width_4",)
    ),
    speculators(
        "dspark_speculators",
        "dspark",
        "llama",
        (2, 3, 4),
        markov_rank=7,
        markov_head_type="vanilla",
        enable_confidence_head=True,
        confidence_head_with_markov=True,
        variants=("width_4", "anchor_first"),
    ),
    speculators(
        "dspark_speculators_anchor",
        "dspark",
        "qwen3",
        (1, 2, 4),
        draft_vocab_size=VOCAB,
        sample_from_anchor=True,
        markov_rank=5,
        markov_head_type="gated",
        enable_confidence_head=True,
        confidence_head_with_markov=False,
        variants=("width_4",),
    ),
    speculators(
        "dspark_speculators_rnn",
        "dspark",
        "llama",
        (2, 3, 4),
        markov_rank=6,
        markov_head_type="rnn",
        enable_confidence_head=False,
        confidence_head_with_markov=False,
        variants=("width_4", "rnn_from_first_mask"),
    ),
    peagle(
        "peagle",
        "llama",
        (2, 3, 4),
        default_taps=True,
        fc_norm=True,
        norm_before_residual=True,
        layer=layer(20, count=2),
    ),
    peagle(
        "peagle_qwen3",
        "qwen3",
        (1, 2, 4),
        draft_vocab_size=VOCAB,
        norm_before_fc=True,
        layer=layer(20, count=3, head_dim=10, theta=1e6, model_type="qwen3"),
    ),
    BlockCase(
        "pard",
        "pard",
        "pard",
        "llama",
        {"pard_token": MASK, "hidden_size": 20, "tie_word_embeddings": True},
        layer=layer(28, count=2, head_dim=6, theta=500000.0),
        count=WIDTH - 1,
    ),
]
