//! The weights of a Llama model, packed.

use super::matrix::Matrix;
use super::memory::{Builder, Memory};
use crate::error::Error;
use crate::lanes::{IsaKind, LANES};
use crate::model::Dtype;
use crate::model::llama::{Config, Tensors};

/// All weights.
#[derive(Debug)]
pub(super) struct ModelWeights {
    pub memory: Memory,
    pub layers: Vec<LayerWeights>,
    pub norm: Vec<f32>,
    /// From a hidden state to the logits of the real vocabulary; in a tied model also
    /// the embedding.
    pub head: Matrix,
    /// One output per token; absent in a tied model.
    embedding: Option<Matrix>,
    /// Radians per position of the rotary embedding.
    pub frequencies: Vec<f32>,
}

/// Weights of a layer.
#[derive(Debug)]
pub(super) struct LayerWeights {
    pub attention_norm: Vec<f32>,
    /// Query, key and value heads.
    pub qkv: Matrix,
    pub output: Matrix,
    pub mlp_norm: Vec<f32>,
    /// Alternating tiles of the gate and the up projection.
    pub gate_up: Matrix,
    pub down: Matrix,
}

impl ModelWeights {
    pub(super) fn load(
        config: &Config,
        vocab: usize,
        (isa, dtype): (IsaKind, Dtype),
        tensors: &dyn Tensors,
    ) -> Result<Self, Error> {
        let mut memory = Builder::new(bytes(config, vocab, dtype))?;
        let hidden = config.hidden;
        let norm = tensors.get("model.norm.weight", &[hidden])?;
        // The tables are packed first, while the memory for the layers is still
        // untouched. The peak is then little more than the larger of two sizes: all
        // packed weights, or the packed tables plus one table in f32.
        let mut table = |name: &str| {
            let rows = matrix(tensors, name, [config.vocab_rows, hidden], dtype)?;
            Ok::<_, Error>(Matrix::pack(
                &mut memory,
                &rows_of(&rows, hidden)[..vocab],
                hidden,
                (isa, dtype),
            ))
        };
        let embedding = table("model.embed_tokens.weight")?;
        let (head, embedding) = match config.tied {
            true => (embedding, None),
            false => (table("lm_head.weight")?, Some(embedding)),
        };
        let layers = (0..config.layers)
            .map(|index| LayerWeights::load(config, index, (isa, dtype), tensors, &mut memory))
            .collect::<Result<Vec<_>, _>>()?;
        let frequencies = config.rope.frequencies(config.head_dim);
        Ok(Self { memory: memory.finish()?, layers, norm, head, embedding, frequencies })
    }

    /// Writes the embedding of a token to `row`.
    pub(super) fn embed(&self, token: usize, row: &mut [f32]) {
        self.embedding.as_ref().unwrap_or(&self.head).unpack(&self.memory, token, row);
    }
}

impl LayerWeights {
    fn load(
        config: &Config,
        index: usize,
        (isa, dtype): (IsaKind, Dtype),
        tensors: &dyn Tensors,
        memory: &mut Builder,
    ) -> Result<Self, Error> {
        let name = |part: &str| format!("model.layers.{index}.{part}.weight");
        let get = |part: &str, shape| matrix(tensors, &name(part), shape, dtype);
        let (hidden, inner) = (config.hidden, config.intermediate);
        let (q, kv) = (config.query_width(), config.kv_heads * config.head_dim);
        // Tensors are freed matrix by matrix.
        let qkv = {
            let q = get("self_attn.q_proj", [q, hidden])?;
            let k = get("self_attn.k_proj", [kv, hidden])?;
            let v = get("self_attn.v_proj", [kv, hidden])?;
            let rows = [&q, &k, &v].map(|part| rows_of(part, hidden)).concat();
            Matrix::pack(memory, &rows, hidden, (isa, dtype))
        };
        let output = {
            let output = get("self_attn.o_proj", [hidden, q])?;
            Matrix::pack(memory, &rows_of(&output, q), q, (isa, dtype))
        };
        let gate_up = {
            let gate = get("mlp.gate_proj", [inner, hidden])?;
            let up = get("mlp.up_proj", [inner, hidden])?;
            let nothing = vec![0.0; hidden];
            let parts = [&gate, &up].map(|part| rows_of(part, hidden));
            Matrix::pack(memory, &in_turns(parts, &nothing), hidden, (isa, dtype))
        };
        let down = {
            let down = get("mlp.down_proj", [hidden, inner])?;
            Matrix::pack(memory, &rows_of(&down, inner), inner, (isa, dtype))
        };
        Ok(Self {
            attention_norm: tensors.get(&name("input_layernorm"), &[hidden])?,
            qkv,
            output,
            mlp_norm: tensors.get(&name("post_attention_layernorm"), &[hidden])?,
            gate_up,
            down,
        })
    }
}

/// Reads a matrix and checks that every weight is finite as `dtype` stores it.
fn matrix(
    tensors: &dyn Tensors,
    name: &str,
    shape: [usize; 2],
    dtype: Dtype,
) -> Result<Vec<f32>, Error> {
    let weights = tensors.get(name, &shape)?;
    // Magnitudes are ordered like their bits, and the comparison of these is
    // vectorised.
    let largest = weights.iter().fold(0, |most: u32, x| most.max(x.abs().to_bits()));
    let largest = f32::from_bits(largest);
    if dtype.stored(shape[1]).holds(largest) {
        return Ok(weights);
    }
    let dtype = dtype.name();
    Err(Error::setting(format!(
        "tensor {name} has a weight of magnitude {largest:e}, which {dtype} cannot hold: choose \
         another dtype"
    )))
}

/// The rows of a matrix.
fn rows_of(matrix: &[f32], inputs: usize) -> Vec<&[f32]> {
    matrix.chunks_exact(inputs).collect()
}

/// The rows of two matrices in alternating tiles; the last tiles are padded with
/// `nothing`.
fn in_turns<'a>([gate, up]: [Vec<&'a [f32]>; 2], nothing: &'a [f32]) -> Vec<&'a [f32]> {
    let mut rows = Vec::with_capacity(2 * gate.len().next_multiple_of(LANES));
    for parts in gate.chunks(LANES).zip(up.chunks(LANES)) {
        for part in [parts.0, parts.1] {
            rows.extend(part);
            rows.resize(rows.len().next_multiple_of(LANES), nothing);
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
