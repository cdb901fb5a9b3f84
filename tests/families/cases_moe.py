"""The cases with several experts per layer.

Each has a `draw` of the weights, of a few hundred, with which its routers decide clearly.
"""

from cases import Case, rope, shape

MIXTURES = [
    Case(
        "qwen3_moe",
        "qwen3_moe",
        shape(
            24,
            3,
            (4, 2),
            10,
            rms_norm_eps=0.02,
            rope_parameters=rope(1e6),
            moe_intermediate_size=20,
            num_experts=6,
            num_experts_per_tok=3,
            norm_topk_prob=True,
            mlp_only_layers=[1],
        ),
        older={"use_sliding_window": False, "sliding_window": 5, "max_window_layers": 1},
        draw=49,
    ),
    Case(
        "qwen3_moe_plain",
        "qwen3_moe",
        shape(
            24,
            4,
            (4, 2),
            inner=20,
            rope_parameters=rope(1e4),
            attention_bias=True,
            tie_word_embeddings=True,
            moe_intermediate_size=12,
            num_experts=5,
            num_experts_per_tok=2,
            norm_topk_prob=False,
            decoder_sparse_step=2,
        ),
        bf16=False,
        draw=210,
    ),
    Case(
        "mixtral",
        "mixtral",
        shape(
            24,
            3,
            (4, 2),
            8,
            inner=28,
            rms_norm_eps=0.02,
            rope_parameters=rope(1e4),
            sliding_window=5,
            num_local_experts=4,
            num_experts_per_tok=2,
        ),
        draw=79,
    ),
]
