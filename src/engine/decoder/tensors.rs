//! The tensors of a checkpoint, as the decoder asks for them.

use super::config::{Config, HeadNorms, LayerInput, Product};
use crate::core::error::Error;
use crate::engine::Dtype;
use crate::engine::blocks::{RawRows, TensorKind};

/// A source of weights.
pub(crate) trait Tensors {
    /// The tensor of this name, of exactly this shape, in f32 and row by row.
    ///
    /// # Errors
    /// If there is no such tensor, or it is invalid.
    fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error>;

    /// The type in which a tensor is stored.
    fn kind(&self, name: &str) -> TensorKind {
        let _ = name;
        TensorKind::F32
    }

    /// The tensor of this name, of exactly this shape, as it is stored, if that is in blocks.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn raw(&self, name: &str, shape: &[usize]) -> Result<RawRows, Error> {
        let _ = shape;
        Err(Error::engine(format!("tensor {name} is not stored in blocks")))
    }

    /// How weights are stored in memory unless a setting says otherwise.
    fn default_dtype(&self) -> Dtype {
        Dtype::F32
    }

    /// SHA-256 of the checkpoint and of all tensors read so far; see
    /// [`crate::model::ModelInfo::sha256`].
    ///
    /// # Errors
    /// If the tensors may belong to different versions of the checkpoint.
    fn sha256(&self) -> Result<String, Error>;
}

/// Name and shape of a tensor.
pub(crate) type Described = (String, Vec<usize>);

/// The tensors of a layer.
#[derive(Clone, Copy)]
pub(crate) struct LayerTensors<'a> {
    pub config: &'a Config,
    pub index: usize,
    pub tensors: &'a dyn Tensors,
}

impl Config {
    /// Names and shapes of all tensors of a checkpoint.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = Described> {
        let head = (!self.tied).then(|| self.head());
        [self.embedding()].into_iter().chain(head).chain([self.last_norm()]).chain(self.layers())
    }

    /// Names and shapes of the tensors of all layers.
    pub(super) fn layers(&self) -> impl Iterator<Item = Described> {
        (0..self.layers.len()).flat_map(|layer| self.layer(layer))
    }

    /// Number of weights of the whole checkpoint.
    pub(crate) fn parameters(&self) -> usize {
        self.tensors().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// Bytes of the projections of all layers and of the head, as stored.
    pub(crate) fn matrix_bytes(&self, vocab: usize, dtype: Dtype, tensors: &dyn Tensors) -> usize {
        let bytes = |(name, shape): &Described, rows: usize| {
            dtype.bytes(rows, shape[1], tensors.kind(name))
        };
        let head = if self.tied { self.embedding() } else { self.head() };
        let layers = (0..self.layers.len()).flat_map(|layer| {
            Product::ALL.into_iter().flat_map(move |product| self.weight_parts(layer, product))
        });
        layers.map(|part| bytes(&part, part.1[0])).sum::<usize>() + bytes(&head, vocab)
    }

    /// The table of the tokens' embeddings, of shape `(vocab_rows, hidden)`.
    pub(crate) fn embedding(&self) -> Described {
        (weight(self.names.embedding), vec![self.vocab_rows, self.hidden])
    }

    /// The head, of shape `(vocab_rows, hidden)`.
    pub(crate) fn head(&self) -> Described {
        (weight(self.names.head), vec![self.vocab_rows, self.hidden])
    }

    pub(super) fn last_norm(&self) -> Described {
        (weight(self.names.norm), vec![self.hidden])
    }

    /// The weights of the norm before the head.
    pub(crate) fn read_last_norm(&self, tensors: &dyn Tensors) -> Result<Vec<f32>, Error> {
        self.read_norm(tensors, self.last_norm())
    }

    pub(super) fn read_norm(
        &self,
        tensors: &dyn Tensors,
        (name, shape): Described,
    ) -> Result<Vec<f32>, Error> {
        let mut weights = tensors.get(&name, &shape)?;
        for weight in &mut weights {
            *weight += self.norm_offset;
        }
        Ok(weights)
    }

    fn layer(&self, layer: usize) -> impl Iterator<Item = Described> {
        let products = Product::ALL.into_iter().flat_map(move |product| {
            let biases = self.has_bias(product).then(|| self.bias_parts(layer, product));
            self.weight_parts(layer, product).into_iter().chain(biases.into_iter().flatten())
        });
        let norms = self.norms(layer).into_iter().flatten();
        let norms = norms.chain(self.norms_of_heads(layer).into_iter().flatten());
        products.chain(norms).chain(self.sinks(layer))
    }

    /// The tensors whose rows, one after the other, are the weights of a product.
    fn weight_parts(&self, layer: usize, product: Product) -> Vec<Described> {
        let [_, inputs] = self.size(layer, product);
        let parts = self.parts(product).into_iter();
        parts.map(|(name, rows)| (weight(&self.within(layer, name)), vec![rows, inputs])).collect()
    }

    /// The tensors that are the bias of a product.
    fn bias_parts(&self, layer: usize, product: Product) -> Vec<Described> {
        let parts = self.parts(product).into_iter();
        parts.map(|(name, rows)| (self.within(layer, name) + ".bias", vec![rows])).collect()
    }

    /// The tensors of a product, with their numbers of rows.
    fn parts(&self, product: Product) -> Vec<(&'static str, usize)> {
        let (q, kv, inner) = (self.query_width(), self.key_width(), self.intermediate);
        let names = &self.names;
        let (names, rows) = match product {
            Product::Qkv => (names.qkv, vec![q, kv, kv]),
            Product::Output => (std::slice::from_ref(&names.output), vec![self.hidden]),
            Product::GateUp => (names.gate_up, vec![inner, inner]),
            Product::Down => (std::slice::from_ref(&names.down), vec![self.hidden]),
        };
        match names {
            [fused] => vec![(*fused, rows.iter().sum())],
            _ => names.iter().copied().zip(rows).collect(),
        }
    }

    /// The norms of a layer, in the order of [`TensorNames::norms`](super::TensorNames::norms).
    fn norms(&self, layer: usize) -> [Option<Described>; 4] {
        let norm = |name| (weight(&self.within(layer, name)), vec![self.hidden]);
        let mut names = self.names.norms;
        if self.layers[layer].input != LayerInput::Normed {
            names[0] = None;
        }
        names.map(|name| name.map(norm))
    }

    /// The norms of queries and of keys.
    fn norms_of_heads(&self, layer: usize) -> Option<[Described; 2]> {
        let widths = match self.head_norms? {
            HeadNorms::Each => [self.head_dim; 2],
            HeadNorms::Together => [self.query_width(), self.key_width()],
        };
        let [queries, keys] = self.names.head_norms;
        let norm = |name, width| (weight(&self.within(layer, name)), vec![width]);
        Some([norm(queries, widths[0]), norm(keys, widths[1])])
    }

    /// The sinks of attention.
    fn sinks(&self, layer: usize) -> Option<Described> {
        let name = self.names.sinks?;
        Some((self.within(layer, name), vec![self.heads]))
    }

    fn within(&self, layer: usize, name: &str) -> String {
        format!("{}.{layer}.{name}", self.names.layers)
    }
}

pub(super) fn weight(name: &str) -> String {
    format!("{name}.weight")
}

impl LayerTensors<'_> {
    /// Names and shapes of the tensors of a product.
    pub(crate) fn parts(self, product: Product) -> Vec<Described> {
        self.config.weight_parts(self.index, product)
    }

    /// The weights of a product, one row of inputs per output.
    #[cfg(feature = "candle")]
    pub(crate) fn weights(self, product: Product) -> Result<Vec<f32>, Error> {
        self.joined(self.config.weight_parts(self.index, product))
    }

    /// The bias of a product, if it has one.
    pub(crate) fn bias(self, product: Product) -> Result<Option<Vec<f32>>, Error> {
        let has = self.config.has_bias(product);
        has.then(|| self.joined(self.config.bias_parts(self.index, product))).transpose()
    }

    /// The weights of the norms, in the order of [`TensorNames::norms`](super::TensorNames::norms).
    pub(crate) fn norms(self) -> Result<[Option<Vec<f32>>; 4], Error> {
        let mut all = [const { None }; 4];
        for (weights, norm) in all.iter_mut().zip(self.config.norms(self.index)) {
            *weights = norm.map(|norm| self.config.read_norm(self.tensors, norm)).transpose()?;
        }
        Ok(all)
    }

    /// The weights of the norms of queries and of keys, if there are any.
    pub(crate) fn head_norms(self) -> Result<Option<[Vec<f32>; 2]>, Error> {
        let Some([queries, keys]) = self.config.norms_of_heads(self.index) else { return Ok(None) };
        let read = |norm| self.config.read_norm(self.tensors, norm);
        Ok(Some([read(queries)?, read(keys)?]))
    }

    /// The sinks of attention, if there are any.
    pub(crate) fn sinks(self) -> Result<Option<Vec<f32>>, Error> {
        let sinks = self.config.sinks(self.index);
        sinks.map(|(name, shape)| self.tensors.get(&name, &shape)).transpose()
    }

    fn joined(self, parts: Vec<Described>) -> Result<Vec<f32>, Error> {
        let mut parts = parts.into_iter().map(|(name, shape)| self.tensors.get(&name, &shape));
        let mut all = parts.next().unwrap_or_else(|| Ok(Vec::new()))?;
        for part in parts {
            part.map(|part| all.extend(part))?;
        }
        Ok(all)
    }
}
