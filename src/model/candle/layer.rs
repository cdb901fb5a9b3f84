//! One decoder layer: attention and feed-forward, each behind its norm.

use candle_core::{Device, Tensor};
use candle_nn::ops::{rms_norm, silu, softmax_last_dim};
use candle_nn::rotary_emb::rope;

use super::cache::{LayerCache, SlotRun, runs};
use super::product::Product;
use crate::error::Error;
use crate::model::Feed;
use crate::model::llama::{Config, Tensors, angles};

/// Copies a tensor of a checkpoint to a device.
pub(super) fn tensor(
    tensors: &dyn Tensors,
    name: &str,
    shape: &[usize],
    device: &Device,
) -> Result<Tensor, Error> {
    Ok(Tensor::from_vec(tensors.get(name, shape)?, shape, device)?)
}

/// Weights of a layer.
#[derive(Debug)]
pub(super) struct CandleLayer {
    attention_norm: Tensor,
    /// Query, key and value heads side by side; the query weights include the factor
    /// `1/√head_dim` of the attention scores.
    qkv: Product,
    output: Product,
    mlp_norm: Tensor,
    /// Gate and up projection side by side.
    gate_up: Product,
    down: Product,
}

/// What all layers share in one pass over the tokens of `feed`.
#[derive(Debug)]
pub(super) struct CandlePass {
    cos: Tensor,
    sin: Tensor,
    runs: Vec<SlotRun>,
    /// Slots below this number are read.
    pub slots: usize,
    /// Shape `(rows, slots)`, 0 where a row may attend and −inf where not; absent if
    /// every row may attend to all slots, as in plain decoding.
    mask: Option<Tensor>,
}

impl CandlePass {
    pub(super) fn new(feed: &[Feed], frequencies: &[f32], device: &Device) -> Result<Self, Error> {
        let (cos, sin) = angles(frequencies, feed.iter().map(|f| f.position));
        let shape = (feed.len(), frequencies.len());
        let cos = Tensor::from_vec(cos, shape, device)?;
        let sin = Tensor::from_vec(sin, shape, device)?;
        let seen = |f: &Feed| f.ancestors.last().map_or(f.prefix, |&last| last + 1);
        let slots = feed.iter().map(seen).max().unwrap_or(0);
        let mask = if feed.iter().all(|f| f.prefix == slots) {
            None
        } else {
            let mut mask = vec![f32::NEG_INFINITY; feed.len() * slots];
            for (row, f) in mask.chunks_exact_mut(slots).zip(feed) {
                row[..f.prefix].fill(0.0);
                f.ancestors.iter().for_each(|&slot| row[slot] = 0.0);
            }
            Some(Tensor::from_vec(mask, (feed.len(), slots), device)?)
        };
        Ok(Self { cos, sin, runs: runs(feed.iter().map(|f| f.slot)), slots, mask })
    }
}

impl CandleLayer {
    pub(super) fn load(
        config: &Config,
        index: usize,
        tensors: &dyn Tensors,
        device: &Device,
    ) -> Result<Self, Error> {
        let get = |part: &str, shape: &[usize]| {
            tensor(tensors, &format!("model.layers.{index}.{part}.weight"), shape, device)
        };
        let (hidden, inner) = (config.hidden, config.intermediate);
        let (q, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let scale = 1.0 / (config.head_dim as f64).sqrt();
        let queries = (get("self_attn.q_proj", &[q, hidden])? * scale)?;
        let keys = get("self_attn.k_proj", &[kv, hidden])?;
        let values = get("self_attn.v_proj", &[kv, hidden])?;
        let gate = get("mlp.gate_proj", &[inner, hidden])?;
        let up = get("mlp.up_proj", &[inner, hidden])?;
        Ok(Self {
            attention_norm: get("input_layernorm", &[hidden])?,
            qkv: Product::new(&Tensor::cat(&[queries, keys, values], 0)?)?,
            output: Product::new(&get("self_attn.o_proj", &[hidden, q])?)?,
            mlp_norm: get("post_attention_layernorm", &[hidden])?,
            gate_up: Product::new(&Tensor::cat(&[gate, up], 0)?)?,
            down: Product::new(&get("mlp.down_proj", &[hidden, inner])?)?,
        })
    }

    /// The hidden states after this layer, of shape `(rows, hidden)` like `x`.
    /// Keys and values of the rows are stored in `cache` first.
    pub(super) fn forward(
        &self,
        config: &Config,
        x: &Tensor,
        pass: &CandlePass,
        cache: &LayerCache,
    ) -> Result<Tensor, Error> {
        let queries = self.store(config, x, pass, cache)?;
        let x = (x + self.attend(config, &queries, pass, cache)?)?;
        let normed = rms_norm(&x, &self.mlp_norm, config.norm_eps)?;
        let gate_up = self.gate_up.apply(&normed)?;
        let gate = gate_up.narrow(1, 0, config.intermediate)?;
        let up = gate_up.narrow(1, config.intermediate, config.intermediate)?;
        Ok((x + self.down.apply(&(silu(&gate)? * up)?)?)?)
    }

    /// Stores keys and values of the rows of `x` and returns the queries, of
    /// shape `(heads, rows, head_dim)`.
    pub(super) fn store(
        &self,
        config: &Config,
        x: &Tensor,
        pass: &CandlePass,
        cache: &LayerCache,
    ) -> Result<Tensor, Error> {
        let (rows, heads, kv_heads) = (x.dim(0)?, config.heads, config.kv_heads);
        let normed = rms_norm(x, &self.attention_norm, config.norm_eps)?;
        // One transposition serves queries, keys and values: with the heads first, each
        // of them is a contiguous slice.
        let qkv = self
            .qkv
            .apply(&normed)?
            .reshape((1, rows, heads + 2 * kv_heads, config.head_dim))?
            .transpose(1, 2)?
            .contiguous()?;
        let rotated =
            rope(&qkv.narrow(1, 0, heads + kv_heads)?, &pass.cos, &pass.sin)?.squeeze(0)?;
        let values = qkv.narrow(1, heads + kv_heads, kv_heads)?.squeeze(0)?;
        cache.write(&pass.runs, &rotated.narrow(0, heads, kv_heads)?, &values)?;
        Ok(rotated.narrow(0, 0, heads)?)
    }

    fn attend(
        &self,
        config: &Config,
        queries: &Tensor,
        pass: &CandlePass,
        cache: &LayerCache,
    ) -> Result<Tensor, Error> {
        let (heads, rows, head_dim) = queries.dims3()?;
        let grouped = (config.kv_heads, heads / config.kv_heads * rows, pass.slots);
        let (keys, values) = cache.read(pass.slots)?;
        // Query heads that share keys are stacked as rows, so no key is copied.
        let queries = queries.reshape((grouped.0, grouped.1, head_dim))?;
        let mut scores = queries.matmul(&keys.transpose(1, 2)?)?;
        if let Some(mask) = &pass.mask {
            scores = scores.reshape((heads, rows, pass.slots))?.broadcast_add(mask)?;
        }
        let weights = softmax_last_dim(&scores)?.reshape(grouped)?;
        let mixed = weights
            .matmul(&values)?
            .reshape((heads, rows, head_dim))?
            .transpose(0, 1)?
            .reshape((rows, heads * head_dim))?;
        self.output.apply(&mixed)
    }
}
