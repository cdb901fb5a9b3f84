//! One decoder layer: attention and feed-forward, with the norms around them.

use candle_core::Tensor;
use candle_nn::ops::{layer_norm, rms_norm, softmax_last_dim};
use candle_nn::rotary_emb::rope;

use super::Place;
use super::cache::LayerCache;
use super::mlp::CandleMlp;
use super::per_layer::InputWeights;
use super::product::Projection;
use super::shared::CandlePass;
use crate::core::error::Error;
use crate::engine::decoder::{
    Config, HeadNorms, HeadSizes, KeySource, LayerKind, LayerTensors, Product,
};

/// Weights of a layer.
#[derive(Debug)]
pub(super) struct CandleLayer {
    kind: LayerKind,
    /// In the order of [`LayerTensors::norms`].
    norms: [Option<Tensor>; 4],
    heads: HeadSizes,
    /// The norms of queries and of keys.
    head_norms: [Option<Tensor>; 2],
    value_norm: Option<Tensor>,
    /// The sinks of attention, of shape `(heads)`.
    sinks: Option<Tensor>,
    /// Query, key and value heads side by side.
    qkv: Projection,
    output: Projection,
    mlp: CandleMlp,
    /// How it reads its own input.
    pub(super) input: Option<InputWeights>,
    /// Multiplies its output.
    scalar: Option<f32>,
}

impl CandleLayer {
    pub(super) fn load(tensors: LayerTensors<'_>, place: &Place) -> Result<Self, Error> {
        let vector = |weights: Vec<f32>| {
            let length = weights.len();
            Tensor::from_vec(weights, length, &place.device)
        };
        let mut norms = [const { None }; 4];
        for (norm, weights) in norms.iter_mut().zip(tensors.norms()?) {
            *norm = weights.map(vector).transpose()?;
        }
        let [queries, keys] = tensors.head_norms()?;
        Ok(Self {
            kind: tensors.config.layers[tensors.index],
            norms,
            heads: tensors.config.heads_of(tensors.index),
            head_norms: [queries.map(vector).transpose()?, keys.map(vector).transpose()?],
            value_norm: tensors.value_norm().map(vector).transpose()?,
            sinks: tensors.sinks()?.map(vector).transpose()?,
            qkv: Projection::load(tensors, Product::Qkv, place)?,
            output: Projection::load(tensors, Product::Output, place)?,
            mlp: CandleMlp::load(tensors, place)?,
            input: InputWeights::load(tensors, place)?,
            scalar: tensors.scalar()?,
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
        let mixed = self.attend(config, &queries, pass, cache)?;
        let x = (x + self.normed(config, 1, &self.output.apply(&mixed)?)?)?;
        let y = self.mlp.apply(config, &self.normed(config, 2, &x)?, pass)?;
        Ok((x + self.normed(config, 3, &y)?)?)
    }

    /// The hidden states times the layer's number, if it has one.
    pub(super) fn scaled(&self, x: Tensor) -> Result<Tensor, Error> {
        Ok(match self.scalar {
            Some(scalar) => (x * f64::from(scalar))?,
            None => x,
        })
    }

    /// Applies the norm of a place, if there is one.
    fn normed(&self, config: &Config, place: usize, x: &Tensor) -> Result<Tensor, Error> {
        match &self.norms[place] {
            Some(weights) => norm(config, x, weights),
            None => Ok(x.clone()),
        }
    }

    /// Stores keys and values of the rows of `x`, unless those of a layer below are attended to, and
    /// returns the queries, of shape `(heads, rows, head_dim)`.
    pub(super) fn store(
        &self,
        config: &Config,
        x: &Tensor,
        pass: &CandlePass,
        cache: &LayerCache,
    ) -> Result<Tensor, Error> {
        let HeadSizes { queries: heads, keys: kv, .. } = self.heads;
        let qkv = self.qkv.apply(&self.normed(config, 0, x)?)?;
        // One copy for all heads: a device needs longer to begin a copy than to make it.
        let all = heads_first(self.heads, &self.normed_together(config, qkv)?)?;
        let queries = self.prepared(config, all.narrow(0, 0, heads)?, 0, pass)?;
        if let Some(first) = self.first_value_head() {
            let keys = self.prepared(config, all.narrow(0, heads, kv)?, 1, pass)?;
            let mut values = all.narrow(0, first, kv)?;
            if let Some(weights) = &self.value_norm {
                values = rms_norm(&values.contiguous()?, weights, config.norm_eps)?;
            }
            cache.write(&pass.runs, &keys, &values)?;
        }
        Ok((queries * f64::from(config.attention_scale / self.kind.divisor as f32))?)
    }

    /// The first head that is a value, among those of the product; none if the layer stores none.
    fn first_value_head(&self) -> Option<usize> {
        let HeadSizes { queries, keys, .. } = self.heads;
        match self.kind.keys {
            KeySource::Own => Some(queries + keys),
            KeySource::Joint => Some(queries),
            KeySource::Layer(_) => None,
        }
    }

    /// Queries, keys and values side by side, of which the first two are normalised if all
    /// heads are normalised together.
    fn normed_together(&self, config: &Config, qkv: Tensor) -> Result<Tensor, Error> {
        let [Some(q_norm), Some(k_norm)] = &self.head_norms else { return Ok(qkv) };
        if config.head_norms != Some(HeadNorms::Together) {
            return Ok(qkv);
        }
        let (q, kv) = (self.heads.query_width(), self.heads.key_width());
        let part = |from, width| qkv.narrow(1, from, width)?.contiguous();
        let queries = rms_norm(&part(0, q)?, q_norm, config.norm_eps)?;
        let keys = rms_norm(&part(q, kv)?, k_norm, config.norm_eps)?;
        Ok(Tensor::cat(&[queries, keys, part(q + kv, kv)?], 1)?)
    }

    /// Queries (0) or keys (1) of shape `(heads, rows, head_dim)`, normalised if each head is,
    /// and rotated.
    fn prepared(
        &self,
        config: &Config,
        mut x: Tensor,
        which: usize,
        pass: &CandlePass,
    ) -> Result<Tensor, Error> {
        if let (Some(norm), Some(HeadNorms::Each)) = (&self.head_norms[which], config.head_norms) {
            x = rms_norm(&x, norm, config.norm_eps)?;
        }
        let Some([cos, sin]) = self.kind.rope.map(|rope| &pass.angles[rope]) else { return Ok(x) };
        let rotated = 2 * cos.dim(1)?;
        let turn = |x: Tensor| rope(&x.unsqueeze(0)?, cos, sin)?.squeeze(0);
        if rotated == self.heads.width {
            return Ok(turn(x)?);
        }
        let rest = x.narrow(2, rotated, self.heads.width - rotated)?;
        Ok(Tensor::cat(&[turn(x.narrow(2, 0, rotated)?.contiguous()?)?, rest], 2)?)
    }

    /// The weighted sums of values, of shape `(rows, heads · head_dim)`.
    fn attend(
        &self,
        config: &Config,
        queries: &Tensor,
        pass: &CandlePass,
        cache: &LayerCache,
    ) -> Result<Tensor, Error> {
        let (heads, rows, head_dim) = queries.dims3()?;
        let kv_heads = self.heads.keys;
        let grouped = (kv_heads, heads / kv_heads * rows, pass.slots);
        let (keys, values) = cache.read(pass.slots)?;
        // Query heads that share keys are stacked as rows, so no key is copied.
        let queries = queries.reshape((grouped.0, grouped.1, head_dim))?;
        let mut scores = queries.matmul(&keys.transpose(1, 2)?)?;
        if let Some(cap) = config.attention_softcap {
            scores = capped(&scores, cap)?;
        }
        if let Some(mask) = pass.mask(self.kind.window) {
            scores = (scores + mask.reshape(grouped)?)?;
        }
        let weights = match &self.sinks {
            None => softmax_last_dim(&scores)?,
            Some(sinks) => {
                let sinks = sinks.reshape((grouped.0, heads / grouped.0, 1))?;
                let sinks = sinks.expand((grouped.0, heads / grouped.0, rows))?;
                let sinks = sinks.reshape((grouped.0, grouped.1, 1))?;
                let all = softmax_last_dim(&Tensor::cat(&[&scores, &sinks], 2)?)?;
                all.narrow(2, 0, pass.slots)?.contiguous()?
            }
        };
        let mixed = weights.matmul(&values)?.reshape((heads, rows, head_dim))?;
        Ok(mixed.transpose(0, 1)?.reshape((rows, heads * head_dim))?)
    }
}

/// A norm of rows of shape `(rows, hidden)`; the weights of a LayerNorm are followed by its bias.
pub(super) fn norm(config: &Config, x: &Tensor, weights: &Tensor) -> Result<Tensor, Error> {
    let x = x.contiguous()?;
    if !config.layer_norms {
        return Ok(rms_norm(&x, weights, config.norm_eps)?);
    }
    let bias = weights.narrow(0, config.hidden, config.hidden)?;
    let weights = weights.narrow(0, 0, config.hidden)?;
    Ok(layer_norm(&x, &weights.contiguous()?, &bias.contiguous()?, config.norm_eps)?)
}

/// From rows of heads side by side to shape `(heads, rows, head_dim)`.
fn heads_first(sizes: HeadSizes, x: &Tensor) -> Result<Tensor, Error> {
    let (rows, width) = x.dims2()?;
    let heads = x.reshape((rows, width / sizes.width, sizes.width))?;
    Ok(heads.transpose(0, 1)?.contiguous()?)
}

/// `cap · tanh(x / cap)`.
pub(super) fn capped(x: &Tensor, cap: f32) -> Result<Tensor, Error> {
    let cap = f64::from(cap);
    Ok(((x / cap)?.tanh()? * cap)?)
}
