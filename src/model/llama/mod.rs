//! The Llama architecture: RMSNorm, rotary positions, grouped-query attention, SwiGLU
//! (Touvron et al. 2023, arXiv 2302.13971). This module holds what every engine needs;
//! the engines themselves are in sibling modules.

mod rope;

pub(super) use rope::{Rope, Scaling, angles};

use super::Dtype;
use crate::distribution::Token;
use crate::error::Error;
use crate::sampling::Logits;

/// A source of weights.
pub(super) trait Tensors {
    /// The tensor of this name, of exactly this shape, in f32 and row by row.
    ///
    /// # Errors
    /// If there is no such tensor, or it is invalid.
    fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error>;

    /// SHA-256 of the checkpoint and of all tensors read so far; see
    /// [`super::ModelInfo::sha256`].
    ///
    /// # Errors
    /// If the tensors may belong to different versions of the checkpoint.
    fn sha256(&self) -> Result<String, Error>;
}

/// A row of logits with −inf for ids that the tokenizer does not use.
pub(super) fn masked(mut row: Vec<f32>, unused: &[Token]) -> Logits {
    for &token in unused {
        row[token as usize] = f32::NEG_INFINITY;
    }
    Logits::F32(row)
}

/// The shape of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Config {
    /// Width of the hidden states.
    pub hidden: usize,
    /// Width of the feed-forward blocks.
    pub intermediate: usize,
    /// Number of layers.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head, even.
    pub head_dim: usize,
    /// Added to the mean square in norms.
    pub norm_eps: f32,
    /// Rotary embedding.
    pub rope: Rope,
    /// The largest number of positions.
    pub positions: usize,
    /// Rows of embedding and head, padding included.
    pub vocab_rows: usize,
    /// Whether the head is the embedding.
    pub tied: bool,
}

impl Config {
    /// Width of the queries of all heads, and of their attention outputs.
    pub(super) fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of queries, keys and values side by side.
    pub(super) fn qkv_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Number of weights in the projections of all layers and in the head.
    pub(super) fn matrix_weights(&self, vocab: usize) -> usize {
        let attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads);
        let mlp = 3 * self.hidden * self.intermediate;
        self.layers * (attention + mlp) + vocab * self.hidden
    }

    /// Bytes of the projections of all layers and of the head, as stored.
    pub(super) fn matrix_bytes(&self, vocab: usize, dtype: Dtype) -> usize {
        let (hidden, inner, q) = (self.hidden, self.intermediate, self.query_width());
        let of = |outputs: usize, inputs: usize| dtype.bytes(outputs, inputs);
        let mlp = 2 * of(inner, hidden) + of(hidden, inner);
        self.layers * (of(self.qkv_width(), hidden) + of(hidden, q) + mlp) + of(vocab, hidden)
    }

    /// Number of weights of the whole checkpoint.
    pub(super) fn parameters(&self) -> usize {
        self.tensors().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// Names and shapes of all tensors of a checkpoint.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (String, Vec<usize>)> {
        let (hidden, inner) = (self.hidden, self.intermediate);
        let (q, kv) = (self.query_width(), self.kv_heads * self.head_dim);
        let table = vec![self.vocab_rows, hidden];
        let head = (!self.tied).then(|| ("lm_head.weight".to_owned(), table.clone()));
        let layer = move |index: usize| {
            let parts = [
                ("self_attn.q_proj", vec![q, hidden]),
                ("self_attn.k_proj", vec![kv, hidden]),
                ("self_attn.v_proj", vec![kv, hidden]),
                ("self_attn.o_proj", vec![hidden, q]),
                ("mlp.gate_proj", vec![inner, hidden]),
                ("mlp.up_proj", vec![inner, hidden]),
                ("mlp.down_proj", vec![hidden, inner]),
                ("input_layernorm", vec![hidden]),
                ("post_attention_layernorm", vec![hidden]),
            ];
            parts.map(|(part, shape)| (format!("model.layers.{index}.{part}.weight"), shape))
        };
        [("model.embed_tokens.weight".to_owned(), table)]
            .into_iter()
            .chain(head)
            .chain([("model.norm.weight".to_owned(), vec![hidden])])
            .chain((0..self.layers).flat_map(layer))
    }
}
