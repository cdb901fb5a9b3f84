//! The names of a decoder's tensors in a checkpoint.

/// Names of the tensors, without `.weight` and `.bias`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::model) struct TensorNames {
    /// One row per token.
    pub embedding: &'static str,
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
    /// Gate and up projection, or one tensor with the rows of both.
    pub gate_up: &'static [&'static str],
    /// From the feed-forward block to the hidden state.
    pub down: &'static str,
    /// The norms of queries and keys.
    pub head_norms: [&'static str; 2],
    /// The norms of a layer.
    pub norms: LayerNorms,
}

/// Which norms a layer has, by name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::model) struct LayerNorms {
    /// Of the hidden state that attention reads.
    pub before_attention: Option<&'static str>,
    /// Of what attention adds to the hidden state.
    pub after_attention: Option<&'static str>,
    /// Of the hidden state that the feed-forward block reads.
    pub before_mlp: Option<&'static str>,
    /// Of what the feed-forward block adds to the hidden state.
    pub after_mlp: Option<&'static str>,
}

/// A place of a norm in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::model) enum NormPlace {
    BeforeAttention,
    AfterAttention,
    BeforeMlp,
    AfterMlp,
}

impl NormPlace {
    /// All places.
    pub(super) const ALL: [Self; 4] =
        [Self::BeforeAttention, Self::AfterAttention, Self::BeforeMlp, Self::AfterMlp];
}

impl TensorNames {
    /// The names of Llama checkpoints.
    pub(in crate::model) const LLAMA: Self = Self {
        embedding: "model.embed_tokens",
        layers: "model.layers",
        norm: "model.norm",
        head: "lm_head",
        qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        output: "self_attn.o_proj",
        gate_up: &["mlp.gate_proj", "mlp.up_proj"],
        down: "mlp.down_proj",
        head_norms: ["self_attn.q_norm", "self_attn.k_norm"],
        norms: LayerNorms::BEFORE,
    };
}

impl LayerNorms {
    /// Norms of what attention and feed-forward blocks read.
    pub(in crate::model) const BEFORE: Self = Self {
        before_attention: Some("input_layernorm"),
        after_attention: None,
        before_mlp: Some("post_attention_layernorm"),
        after_mlp: None,
    };

    /// Norms of what attention and feed-forward blocks add to the hidden state.
    pub(in crate::model) const AFTER: Self = Self {
        before_attention: None,
        after_attention: Some("post_attention_layernorm"),
        before_mlp: None,
        after_mlp: Some("post_feedforward_layernorm"),
    };

    /// Both.
    pub(in crate::model) const BEFORE_AND_AFTER: Self = Self {
        before_attention: Some("input_layernorm"),
        after_attention: Some("post_attention_layernorm"),
        before_mlp: Some("pre_feedforward_layernorm"),
        after_mlp: Some("post_feedforward_layernorm"),
    };

    /// The norm at a place.
    pub(super) fn at(self, place: NormPlace) -> Option<&'static str> {
        match place {
            NormPlace::BeforeAttention => self.before_attention,
            NormPlace::AfterAttention => self.after_attention,
            NormPlace::BeforeMlp => self.before_mlp,
            NormPlace::AfterMlp => self.after_mlp,
        }
    }
}
