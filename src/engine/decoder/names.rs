//! The names of a decoder's tensors in a checkpoint.

/// Names of the tensors, without `.weight` and `.bias`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TensorNames {
    /// One row per token.
    pub embedding: &'static str,
    /// One row per position, of models that learn them.
    pub positions: &'static str,
    /// What the names of layers begin with; a number follows.
    pub layers: &'static str,
    /// The norm before the head.
    pub norm: &'static str,
    /// One row per token; absent from a tied checkpoint.
    pub head: &'static str,
    /// Query, key and value projection, or one tensor with the rows of all three.
    pub qkv: &'static [&'static str],
    /// From the attention outputs to the hidden state.
    pub output: &'static str,
    /// Gate and up projection, or one tensor with the rows of both; without a gate, the one product.
    pub gate_up: &'static [&'static str],
    /// From the feed-forward block to the hidden state.
    pub down: &'static str,
    /// From the hidden state to the logits of the experts.
    pub router: &'static str,
    /// What the names of experts begin with; a number follows.
    pub experts: &'static str,
    /// The projections of an expert, as those of a feed-forward block.
    pub expert_gate_up: &'static [&'static str],
    pub expert_down: &'static str,
    /// The norms of queries and keys.
    pub head_norms: [&'static str; 2],
    /// The logits of attention that take weight from no value, one for each query head; the whole
    /// name.
    pub sinks: Option<&'static str>,
    /// The norms of a layer.
    pub norms: LayerNorms,
    /// Whether the matrices of layers are stored with one row per input.
    pub transposed: bool,
}

/// The norms that a layer has, by name: of the hidden state that attention reads, and of what
/// attention adds to it; then the same two of the feed-forward block.
pub(crate) type LayerNorms = [Option<&'static str>; 4];

/// Norms of what attention and feed-forward blocks read.
const NORMS_BEFORE: LayerNorms =
    [Some("input_layernorm"), None, Some("post_attention_layernorm"), None];

/// Norms of what attention and feed-forward blocks add to the hidden state.
pub(crate) const NORMS_AFTER: LayerNorms =
    [None, Some("post_attention_layernorm"), None, Some("post_feedforward_layernorm")];

/// Both.
pub(crate) const NORMS_AROUND: LayerNorms = [
    Some("input_layernorm"),
    Some("post_attention_layernorm"),
    Some("pre_feedforward_layernorm"),
    Some("post_feedforward_layernorm"),
];

/// How a layer reads its own input: the gate, the product to the hidden state, and the norm of that.
pub(super) const INPUT_GATE: &str = "per_layer_input_gate";
pub(super) const INPUT_OUTPUT: &str = "per_layer_projection";
pub(super) const INPUT_NORM: &str = "post_per_layer_input_norm";
/// The number that a layer multiplies its output by; the whole name.
pub(super) const SCALAR: &str = "layer_scalar";

impl TensorNames {
    /// The names of Llama checkpoints.
    pub(crate) const LLAMA: Self = Self {
        embedding: "model.embed_tokens",
        positions: "",
        layers: "model.layers",
        norm: "model.norm",
        head: "lm_head",
        qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        output: "self_attn.o_proj",
        gate_up: &["mlp.gate_proj", "mlp.up_proj"],
        down: "mlp.down_proj",
        router: "mlp.gate",
        experts: "mlp.experts",
        expert_gate_up: &["gate_proj", "up_proj"],
        expert_down: "down_proj",
        head_norms: ["self_attn.q_norm", "self_attn.k_norm"],
        sinks: None,
        norms: NORMS_BEFORE,
        transposed: false,
    };
}
