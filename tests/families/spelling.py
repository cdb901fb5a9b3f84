"""Configurations in the spelling of published files."""

from typing import Any

from cases import Case

# What transformers 5 renames although published files and older versions do not know it.
RENAMED = {"qwen3_moe": {"num_local_experts": "num_experts"}}
# The version in which a family appeared, if that was after 4.46.
VERSIONS = {"qwen3_moe": "4.51.0", "gpt_oss": "4.55.0"}

# What the configuration of GPT-2 did not have yet, with what its absence means.
GPT2_LATER = {
    "n_inner": None,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    "use_cache": True,
    "pad_token_id": None,
}


def older(config: dict[str, Any], case: Case) -> dict[str, Any]:
    """Return the configuration as published files of its time spell it."""
    if case.family == "gpt2":
        return older_gpt2(config, case)
    if case.family == "gemma4_text":
        # Its first files have the newer spelling but for the heads.
        kept = {k: x for k, x in config.items() if k != "per_layer_config"}
        return dict(sorted({**kept, **case.older}.items()))
    rope = config["rope_parameters"]
    newer = ["rope_parameters", "dtype"]
    if case.family != "gpt_oss":
        newer.append("layer_types")
    elif config["swiglu_alpha"] == 1.702:
        newer.append("swiglu_alpha")
    names = RENAMED.get(case.family, {})
    kept = {k: x for k, x in config.items() if k not in newer and not k.startswith("_")}
    result = {names.get(k, k): x for k, x in kept.items()}
    if case.family == "gemma3_text":
        result["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    rope = dict(rope)
    kind = rope.pop("rope_type")
    result["rope_theta"] = rope.pop("rope_theta")
    if (partial := rope.pop("partial_rotary_factor", None)) is not None:
        result["partial_rotary_factor"] = partial
    if case.family == "phi3":
        rope.pop("original_max_position_embeddings", None)
    is_late = kind == "llama3" or "gemma3" in case.family or case.family == "gpt_oss"
    named = {"rope_type" if is_late else "type": kind}
    result["rope_scaling"] = None if kind == "default" else {**rope, **named}
    if "quantization_config" not in config:
        result["torch_dtype"] = config["dtype"]
    result["transformers_version"] = VERSIONS.get(case.family, "4.46.0")
    return dict(sorted({**result, **case.older}.items()))


def older_gpt2(config: dict[str, Any], case: Case) -> dict[str, Any]:
    """Return the configuration without the keys that were added later, where it can do so."""
    later = {**GPT2_LATER, "dtype": config["dtype"]}
    kept = {k: x for k, x in config.items() if k not in later or later[k] != x}
    del kept["transformers_version"]
    return dict(sorted({**kept, **case.older}.items()))
