//! Inputs per layer: every layer also reads a vector that belongs to the token and to the layer
//! (Gemma 3n and Gemma 4). It is the sum of a row of a table and of a product of the token's
//! embedding.

use super::config::Config;
use super::names::INPUT_NORM;
use super::tensors::{Described, LayerTensors, Tensors, weight};
use crate::core::error::Error;

/// Names of the tensors of all layers together, without `.weight`.
const TABLE: &str = "model.embed_tokens_per_layer";
const PROJECTION: &str = "model.per_layer_model_projection";
const PROJECTION_NORM: &str = "model.per_layer_projection_norm";

/// What the parts of an input are multiplied by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PerLayerScales {
    /// The product of the embedding, before its norm.
    pub product: f32,
    /// The row of the table.
    pub row: f32,
    /// The sum of both.
    pub sum: f32,
}

impl Config {
    /// Numbers in the inputs of all layers of a token.
    pub(crate) fn per_layer_width(&self) -> usize {
        self.per_layer.map_or(0, |inputs| self.layers.len() * inputs.width)
    }

    /// The table of the tokens' rows, of shape `(rows, layers · width)`.
    pub(crate) fn per_layer_table(&self) -> Option<Described> {
        let inputs = self.per_layer?;
        Some((weight(TABLE), vec![inputs.rows, self.per_layer_width()]))
    }

    /// The product of an embedding, of shape `(layers · width, hidden)`.
    pub(crate) fn per_layer_product(&self) -> Option<Described> {
        self.per_layer?;
        Some((weight(PROJECTION), vec![self.per_layer_width(), self.hidden]))
    }

    /// The norm of each layer's part of that product.
    fn per_layer_norm(&self) -> Option<Described> {
        let inputs = self.per_layer?;
        Some((weight(PROJECTION_NORM), vec![inputs.width]))
    }

    /// The tensors of all layers together.
    pub(super) fn per_layer_tensors(&self) -> impl Iterator<Item = Described> {
        let all = [self.per_layer_table(), self.per_layer_product(), self.per_layer_norm()];
        all.into_iter().flatten()
    }

    /// The weights of the norm of each layer's part of the product.
    pub(crate) fn read_per_layer_norm(&self, tensors: &dyn Tensors) -> Result<Vec<f32>, Error> {
        let norm = self.per_layer_norm().map(|norm| self.read_norm(tensors, norm));
        norm.unwrap_or_else(|| Ok(Vec::new()))
    }

    /// What the parts of an input are multiplied by.
    pub(crate) fn per_layer_scales(&self) -> PerLayerScales {
        let width = self.per_layer.map_or(0, |inputs| inputs.width);
        PerLayerScales {
            product: (1.0 / (self.hidden as f64).sqrt()) as f32,
            row: (width as f64).sqrt() as f32,
            sum: std::f32::consts::FRAC_1_SQRT_2,
        }
    }

    /// The norm of what a layer makes of its input.
    pub(super) fn input_norm(&self, layer: usize) -> Option<Described> {
        self.per_layer?;
        Some((weight(&self.within(layer, INPUT_NORM)), vec![self.hidden]))
    }
}

impl LayerTensors<'_> {
    /// The weights of the norm of what the layer makes of its input, if it has one.
    pub(crate) fn input_norm(self) -> Result<Option<Vec<f32>>, Error> {
        let norm = self.config.input_norm(self.index);
        norm.map(|norm| self.config.read_norm(self.tensors, norm)).transpose()
    }
}
