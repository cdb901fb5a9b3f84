//! The weights of a Llama model, packed.

use super::matrix::Matrix;
use super::memory::{Builder, Memory};
use crate::lanes::LANES;
use crate::model::llama::{Config, GetTensor};
use crate::model::{Dtype, ModelError};

/// All weights.
#[derive(Debug)]
pub(super) struct Weights {
    pub memory: Memory,
    pub layers: Vec<Layer>,
    pub norm: Vec<f32>,
    /// From a hidden state to the logits of the real vocabulary; of a tied model
    /// also the embedding.
    pub head: Matrix,
    /// One output per token; absent in a tied model.
    embedding: Option<Matrix>,
    /// Radians per position of the rotary embedding.
    pub frequencies: Vec<f32>,
}

/// Weights of a layer.
#[derive(Debug)]
pub(super) struct Layer {
    pub attention_norm: Vec<f32>,
    /// Query, key and value heads.
    pub qkv: Matrix,
    pub output: Matrix,
    pub mlp_norm: Vec<f32>,
    /// Tiles of the gate and of the up projection in turns.
    pub gate_up: Matrix,
    pub down: Matrix,
}

impl Weights {
    pub(super) fn load(
        config: &Config,
        vocab: usize,
        dtype: Dtype,
        get: &GetTensor<'_>,
    ) -> Result<Self, ModelError> {
        let mut memory = Builder::new(bytes(config, vocab, dtype))?;
        let (hidden, memory_of) = (config.hidden, &mut memory);
        let table = [config.vocab_rows, hidden];
        let real = vocab * hidden;
        let layers = (0..config.layers)
            .map(|index| Layer::load(config, index, dtype, get, memory_of))
            .collect::<Result<Vec<_>, _>>()?;
        let embed = get("model.embed_tokens.weight", &table)?;
        let (head, embedding) = if config.tied {
            (Matrix::pack(memory_of, &embed[..real], hidden, dtype), None)
        } else {
            let embedding = Matrix::pack(memory_of, &embed[..real], hidden, dtype);
            drop(embed);
            let head = get("lm_head.weight", &table)?;
            (Matrix::pack(memory_of, &head[..real], hidden, dtype), Some(embedding))
        };
        Ok(Self {
            memory: memory.finish()?,
            layers,
            norm: get("model.norm.weight", &[hidden])?,
            head,
            embedding,
            frequencies: config.rope.frequencies(config.head_dim),
        })
    }

    /// Writes the embedding of a token to `row`.
    pub(super) fn embed(&self, token: usize, row: &mut [f32]) {
        self.embedding.as_ref().unwrap_or(&self.head).unpack(&self.memory, token, row);
    }
}

impl Layer {
    fn load(
        config: &Config,
        index: usize,
        dtype: Dtype,
        get: &GetTensor<'_>,
        memory: &mut Builder,
    ) -> Result<Self, ModelError> {
        let get = |part: &str, shape: &[usize]| {
            get(&format!("model.layers.{index}.{part}.weight"), shape)
        };
        let (hidden, inner) = (config.hidden, config.intermediate);
        let (q, kv) = (config.query_width(), config.kv_heads * config.head_dim);
        let mut qkv = get("self_attn.q_proj", &[q, hidden])?;
        qkv.extend(get("self_attn.k_proj", &[kv, hidden])?);
        qkv.extend(get("self_attn.v_proj", &[kv, hidden])?);
        let output = get("self_attn.o_proj", &[hidden, q])?;
        let gate = get("mlp.gate_proj", &[inner, hidden])?;
        let up = get("mlp.up_proj", &[inner, hidden])?;
        let down = get("mlp.down_proj", &[hidden, inner])?;
        Ok(Self {
            attention_norm: get("input_layernorm", &[hidden])?,
            qkv: Matrix::pack(memory, &qkv, hidden, dtype),
            output: Matrix::pack(memory, &output, q, dtype),
            mlp_norm: get("post_attention_layernorm", &[hidden])?,
            gate_up: Matrix::pack(memory, &in_turns(&gate, &up, hidden), hidden, dtype),
            down: Matrix::pack(memory, &down, inner, dtype),
        })
    }
}

/// The rows of two matrices, a tile of one and a tile of the other in turns; the
/// last tiles are filled up with zeros.
fn in_turns(gate: &[f32], up: &[f32], inputs: usize) -> Vec<f32> {
    let tile = LANES * inputs;
    let mut rows = Vec::with_capacity(2 * gate.len().next_multiple_of(tile));
    for parts in gate.chunks(tile).zip(up.chunks(tile)) {
        for part in [parts.0, parts.1] {
            rows.extend(part);
            rows.resize(rows.len().next_multiple_of(tile), 0.0);
        }
    }
    rows
}

/// Bytes of all packed matrices.
fn bytes(config: &Config, vocab: usize, dtype: Dtype) -> usize {
    let (hidden, inner, q) = (config.hidden, config.intermediate, config.query_width());
    let of = |outputs, inputs| Matrix::bytes(outputs, inputs, dtype);
    let layer = of(config.qkv_width(), hidden)
        + of(hidden, q)
        + of(2 * inner.next_multiple_of(LANES), hidden)
        + of(hidden, inner);
    let tables = if config.tied { 1 } else { 2 };
    config.layers * layer + tables * of(vocab, hidden)
}
