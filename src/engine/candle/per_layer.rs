//! Inputs per layer: what they are made of, and what a layer makes of its own.

use candle_core::{DType, Tensor};
use candle_nn::ops::rms_norm;

use super::Place;
use super::mlp::activated;
use super::product::Projection;
use crate::core::error::Error;
use crate::engine::decoder::{Config, LayerTensors, PerLayerScales, Product, Tensors};

/// The weights from which the inputs of all layers follow.
#[derive(Debug)]
pub(super) struct PerLayer {
    /// One row per token: its part of the inputs, layer by layer.
    table: Tensor,
    /// From a token's embedding to the other part.
    product: Projection,
    /// The norm of each layer's share of that.
    norm: Tensor,
    scales: PerLayerScales,
}

/// The weights by which a layer reads its input.
#[derive(Debug)]
pub(super) struct InputWeights {
    gate: Projection,
    output: Projection,
    norm: Tensor,
}

impl PerLayer {
    pub(super) fn load(
        config: &Config,
        tensors: &dyn Tensors,
        place: &Place,
    ) -> Result<Option<Self>, Error> {
        let (Some(table), Some(product)) = (config.per_layer_table(), config.per_layer_product())
        else {
            return Ok(None);
        };
        let read = |(name, shape): (String, Vec<usize>)| {
            place.matrix(tensors.get(&name, &shape)?, [shape[0], shape[1]])
        };
        let norm = config.read_per_layer_norm(tensors)?;
        let width = norm.len();
        Ok(Some(Self {
            table: read(table)?,
            product: Projection::new(&read(product)?, None)?,
            norm: Tensor::from_vec(norm, width, &place.device)?,
            scales: config.per_layer_scales(),
        }))
    }

    /// The inputs of all layers, of shape `(layers, rows, width)`, for tokens with these embeddings of
    /// shape `(rows, hidden)`.
    pub(super) fn inputs(
        &self,
        config: &Config,
        tokens: &Tensor,
        embedded: &Tensor,
    ) -> Result<Tensor, Error> {
        let PerLayerScales { product, row, sum } = self.scales;
        let shape = (embedded.dim(0)?, config.layers.len(), self.norm.dim(0)?);
        let from_embedding = (self.product.apply(embedded)? * f64::from(product))?;
        let from_embedding =
            rms_norm(&from_embedding.reshape(shape)?.contiguous()?, &self.norm, config.norm_eps)?;
        let of_tokens = self.table.index_select(tokens, 0)?.to_dtype(DType::F32)?;
        let of_tokens = (of_tokens * f64::from(row))?;
        let inputs = ((from_embedding + of_tokens.reshape(shape)?)? * f64::from(sum))?;
        Ok(inputs.transpose(0, 1)?.contiguous()?)
    }
}

impl InputWeights {
    /// Those of a layer, if it has an input.
    pub(super) fn load(layer: LayerTensors<'_>, place: &Place) -> Result<Option<Self>, Error> {
        let Some(norm) = layer.input_norm()? else { return Ok(None) };
        let width = norm.len();
        Ok(Some(Self {
            gate: Projection::load(layer, Product::InputGate, place)?,
            output: Projection::load(layer, Product::InputOutput, place)?,
            norm: Tensor::from_vec(norm, width, &place.device)?,
        }))
    }

    /// Hidden states of shape `(rows, hidden)` with what a layer makes of its input, of shape
    /// `(rows, width)`.
    pub(super) fn add(&self, config: &Config, x: Tensor, input: &Tensor) -> Result<Tensor, Error> {
        let gated = (activated(config, &self.gate.apply(&x)?)? * input)?;
        let y = self.output.apply(&gated)?.contiguous()?;
        Ok((x + rms_norm(&y, &self.norm, config.norm_eps)?)?)
    }
}
