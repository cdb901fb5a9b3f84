//! The weights of inputs per layer.

use super::matrix::Matrix;
use super::packer::{Linear, next};
use crate::core::error::Error;
use crate::engine::decoder::{Config, LayerTensors, PerLayerScales, Tensors};

/// The weights from which the inputs of all layers follow.
#[derive(Debug)]
pub(super) struct PerLayerWeights {
    /// One output per token: its part of the inputs, layer by layer.
    pub table: Matrix,
    /// From a token's embedding to the other part.
    pub product: Linear,
    /// The norm of each layer's share of that.
    pub norm: Vec<f32>,
    pub scales: PerLayerScales,
}

/// The weights by which a layer reads its input.
#[derive(Debug)]
pub(super) struct InputWeights {
    pub gate: Linear,
    pub output: Linear,
    pub norm: Vec<f32>,
}

impl PerLayerWeights {
    /// The table and the product are the next matrices.
    pub(super) fn of(
        config: &Config,
        tensors: &dyn Tensors,
        linears: &mut impl Iterator<Item = Linear>,
    ) -> Result<Self, Error> {
        let (table, product) = (next(linears)?.matrix, next(linears)?);
        let norm = config.read_per_layer_norm(tensors)?;
        Ok(Self { table, product, norm, scales: config.per_layer_scales() })
    }
}

impl InputWeights {
    /// Those of a layer, if it has an input, whose products are the next matrices.
    pub(super) fn of(
        layer: LayerTensors<'_>,
        linears: &mut impl Iterator<Item = Linear>,
    ) -> Result<Option<Self>, Error> {
        let Some(norm) = layer.input_norm()? else { return Ok(None) };
        Ok(Some(Self { gate: next(linears)?, output: next(linears)?, norm }))
    }

    pub(super) fn linears(&self) -> [&Linear; 2] {
        [&self.gate, &self.output]
    }
}
