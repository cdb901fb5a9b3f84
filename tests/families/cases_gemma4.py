"""The cases of Gemma 4, whose two kinds of layers have heads of two widths.

Scores of attention are large, since nothing divides them. Each case has a `draw` of the
weights, of 60, with which rounding the weights to 8 bits moves the logits little.
"""

from typing import Any

from cases import VOCAB, Case, by_layer, rope, shape
from published import gemma4_shared


def gemma4(layers: int, inner: int, theta: float, **more: Any) -> dict[str, Any]:
    """Return the settings that both cases share; every second layer has a window."""
    full = rope(theta, "proportional", partial_rotary_factor=0.25)
    kinds = ["sliding_attention", "full_attention"]
    return shape(
        24,
        layers,
        (4, 2),
        8,
        inner,
        global_head_dim=16,
        layer_types=kinds * (layers // 2),
        rope_parameters=by_layer(full, rope(1e3)),
        sliding_window=5,
        final_logit_softcapping=4.0,
        vocab_size_per_layer_input=VOCAB,
        **more,
    )


GEMMA4 = [
    Case(
        "gemma4_small",
        "gemma4_text",
        gemma4(
            6,
            20,
            1e6,
            rms_norm_eps=0.02,
            num_kv_shared_layers=2,
            use_double_wide_mlp=True,
            hidden_size_per_layer_input=6,
        ),
        older={"num_global_key_value_heads": None, "global_head_dim": 16},
        draw=32,
        published=gemma4_shared,
    ),
    Case(
        "gemma4_large",
        "gemma4_text",
        gemma4(
            4,
            44,
            1e4,
            hidden_size_per_layer_input=0,
            attention_bias=True,
            attention_k_eq_v=True,
            num_global_key_value_heads=1,
            use_bidirectional_attention="vision",
        ),
        older={"num_global_key_value_heads": 1, "global_head_dim": 16},
        draw=1,
    ),
]
