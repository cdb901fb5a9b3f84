//! Feed-forward blocks, sparse or not.

use std::collections::BTreeMap;

use candle_core::Tensor;
use candle_nn::ops::{sigmoid, silu};

use super::Place;
use super::product::Projection;
use super::shared::CandlePass;
use crate::core::error::Error;
use crate::engine::decoder::{Activation, Config, Experts, LayerTensors, Mlp, Product};

/// The feed-forward block of a layer.
#[derive(Debug)]
pub(super) enum CandleMlp {
    Dense(CandleBlock),
    Sparse { all: Experts, router: Projection, experts: Vec<CandleBlock> },
}

/// A feed-forward block that is not sparse, or an expert.
#[derive(Debug)]
pub(super) struct CandleBlock {
    /// Gate and up projection side by side.
    gate_up: Projection,
    down: Projection,
}

impl CandleMlp {
    pub(super) fn load(tensors: LayerTensors<'_>, place: &Place) -> Result<Self, Error> {
        let LayerTensors { config, index, .. } = tensors;
        let Some(all) = config.experts.filter(|_| config.layers[index].sparse) else {
            return CandleBlock::load(tensors, Mlp::Dense, place).map(Self::Dense);
        };
        let router = Projection::load(tensors, Product::Router, place)?;
        let experts = (0..all.count).map(|one| CandleBlock::load(tensors, Mlp::Expert(one), place));
        Ok(Self::Sparse { all, router, experts: experts.collect::<Result<_, _>>()? })
    }

    /// `x` of shape `(rows, hidden)` becomes what the block adds to it.
    pub(super) fn apply(
        &self,
        config: &Config,
        x: &Tensor,
        pass: &CandlePass,
    ) -> Result<Tensor, Error> {
        let (all, router, experts) = match self {
            Self::Dense(block) => return block.apply(config, x),
            Self::Sparse { all, router, experts } => (all, router, experts),
        };
        // The rows of each expert, and how much it counts for them.
        let mut assigned = BTreeMap::<_, (Vec<u32>, Vec<f32>)>::new();
        for (row, logits) in router.apply(x)?.to_vec2::<f32>()?.iter().enumerate() {
            let exp = |x: &mut [f32]| x.iter_mut().for_each(|x| *x = x.exp());
            for choice in all.choose(logits, exp) {
                let (rows, weights) = assigned.entry(choice.expert).or_default();
                rows.push(row as u32);
                weights.push(choice.weight);
            }
        }
        pass.experts.set(pass.experts.get() + assigned.len());
        let mut sum = x.zeros_like()?;
        for (expert, (rows, weights)) in assigned {
            let weights = Tensor::from_vec(weights, (rows.len(), 1), x.device())?;
            let rows = Tensor::new(rows, x.device())?;
            let y = experts[expert as usize].apply(config, &x.index_select(&rows, 0)?)?;
            sum = sum.index_add(&rows, &y.broadcast_mul(&weights)?, 0)?;
        }
        Ok(sum)
    }
}

impl CandleBlock {
    fn load(tensors: LayerTensors<'_>, block: Mlp, place: &Place) -> Result<Self, Error> {
        Ok(Self {
            gate_up: Projection::load(tensors, Product::GateUp(block), place)?,
            down: Projection::load(tensors, Product::Down(block), place)?,
        })
    }

    fn apply(&self, config: &Config, x: &Tensor) -> Result<Tensor, Error> {
        if !config.gated {
            return self.down.apply(&activated(config, &self.gate_up.apply(x)?)?);
        }
        let [gate, up] = self.gate_up.apply_halves(x)?;
        let up = match config.activation {
            Activation::Silu | Activation::GeluTanh => up,
            Activation::Clamped { limit, .. } => (up.clamp(-limit, limit)? + 1.0)?,
        };
        self.down.apply(&(activated(config, &gate)? * up)?)
    }
}

/// The activation of each number.
pub(super) fn activated(config: &Config, x: &Tensor) -> Result<Tensor, Error> {
    match config.activation {
        Activation::Silu => Ok(silu(x)?),
        Activation::GeluTanh => Ok(x.gelu()?),
        Activation::Clamped { alpha, limit } => clamped(x, alpha, limit),
    }
}

/// x · sigmoid(α x) of x up to a limit.
fn clamped(x: &Tensor, alpha: f32, limit: f32) -> Result<Tensor, Error> {
    let x = x.minimum(limit)?;
    let share = sigmoid(&(&x * f64::from(alpha))?)?;
    Ok((x * share)?)
}
