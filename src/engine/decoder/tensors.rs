//! The tensors of a checkpoint, as the decoder asks for them.

use super::config::{Config, HeadNorms, Mlp, Product};
use super::experts::Experts;
use super::layer::LayerInput;
use super::names::{INPUT_GATE, INPUT_OUTPUT, SCALAR};
use crate::core::error::Error;
use crate::engine::Dtype;
use crate::engine::blocks::{RawRows, SomeRows, TensorKind};
use crate::model::ExpertBytes;

/// A source of weights.
pub(crate) trait Tensors: Sync {
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

    /// Calls `each` with the rows of a matrix in order, some at a time: as numbers, or as they are
    /// stored in the type of [`Self::kind`], if that is a type of numbers.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn visit(
        &self,
        name: &str,
        shape: &[usize],
        each: &mut dyn FnMut(SomeRows<'_>),
    ) -> Result<(), Error> {
        each(SomeRows::Numbers(&self.get(name, shape)?));
        Ok(())
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
        let tables = [self.embedding()].into_iter().chain(self.positions()).chain(head);
        let tables = tables.chain(self.norm_parts(self.last_norm()));
        tables.chain(self.per_layer_tensors()).chain(self.layers())
    }

    /// Names and shapes of the tensors of all layers.
    pub(super) fn layers(&self) -> impl Iterator<Item = Described> {
        (0..self.layers.len()).flat_map(|layer| self.layer(layer))
    }

    /// Number of weights of the whole checkpoint.
    pub(crate) fn parameters(&self) -> usize {
        self.tensors().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// Bytes, as stored, of the matrices that a row is multiplied by: the projections of all layers
    /// and to their inputs, of experts as many as it uses, and the head.
    pub(crate) fn matrix_bytes(&self, vocab: usize, dtype: Dtype, tensors: &dyn Tensors) -> usize {
        let bytes = |(name, shape): &Described, rows: usize| {
            dtype.bytes(rows, shape[1], tensors.kind(name))
        };
        let head = if self.tied { self.embedding() } else { self.head() };
        let products = self.all_products(self.experts_per_row());
        let parts = products.flat_map(|(layer, product)| self.weight_parts(layer, product));
        let parts = parts.chain(self.per_layer_product());
        parts.map(|part| bytes(&part, part.1[0])).sum::<usize>() + bytes(&head, vocab)
    }

    /// The experts of the sparse layers with the bytes of one, as stored.
    pub(crate) fn expert_bytes(&self, dtype: Dtype, tensors: &dyn Tensors) -> Option<ExpertBytes> {
        let Experts { count, used, .. } = self.experts?;
        let layer = self.layers.iter().position(|layer| layer.sparse)?;
        let parts = Mlp::Expert(0).products().into_iter();
        let parts = parts.flat_map(|product| self.weight_parts(layer, product));
        let bytes = parts.map(|(name, shape)| dtype.bytes(shape[0], shape[1], tensors.kind(&name)));
        let layers = self.layers.iter().filter(|layer| layer.sparse).count();
        Some(ExpertBytes { layers, count, used, bytes: bytes.sum() })
    }

    /// The table of the tokens' embeddings, of shape `(vocab_rows, hidden)`.
    pub(crate) fn embedding(&self) -> Described {
        (weight(self.names.embedding), vec![self.vocab_rows, self.hidden])
    }

    /// The table of the positions' embeddings, of shape `(positions, hidden)`.
    pub(crate) fn positions(&self) -> Option<Described> {
        let table = || (weight(self.names.positions), vec![self.positions, self.hidden]);
        self.learned_positions.then(table)
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

    /// The weights of a norm; those of a LayerNorm are followed by its bias.
    pub(super) fn read_norm(
        &self,
        tensors: &dyn Tensors,
        norm: Described,
    ) -> Result<Vec<f32>, Error> {
        let mut parts = self.norm_parts(norm);
        let mut weights = match parts.next() {
            Some((name, shape)) => tensors.get(&name, &shape)?,
            None => Vec::new(),
        };
        for weight in &mut weights {
            *weight += self.norm_offset;
        }
        for (name, shape) in parts {
            weights.extend(tensors.get(&name, &shape)?);
        }
        Ok(weights)
    }

    /// The tensors of a norm, given that of its weights.
    fn norm_parts(&self, (name, shape): Described) -> impl Iterator<Item = Described> + use<> {
        let bias = format!("{}.bias", name.trim_end_matches(".weight"));
        let bias = self.layer_norms.then(|| (bias, shape.clone()));
        [(name, shape)].into_iter().chain(bias)
    }

    fn layer(&self, layer: usize) -> impl Iterator<Item = Described> {
        let products = self.products(layer, usize::MAX).flat_map(move |product| {
            self.weight_parts(layer, product).into_iter().chain(self.bias_parts(layer, product))
        });
        let norms = self.norms(layer).into_iter().flatten();
        let norms = norms.flat_map(|norm| self.norm_parts(norm));
        let norms = norms.chain(self.norms_of_heads(layer).into_iter().flatten().flatten());
        let norms = norms.chain(self.input_norm(layer));
        products.chain(norms).chain(self.sinks(layer)).chain(self.scalar(layer))
    }

    /// The tensors whose rows, one after the other, are the weights of a product.
    pub(crate) fn weight_parts(&self, layer: usize, product: Product) -> Vec<Described> {
        let [_, inputs] = self.size(layer, product);
        let parts = self.parts(layer, product).into_iter();
        parts.map(|(name, rows)| (weight(&self.within(layer, &name)), vec![rows, inputs])).collect()
    }

    /// The tensors that are the bias of a product; none if it has none.
    pub(crate) fn bias_parts(&self, layer: usize, product: Product) -> Vec<Described> {
        if !self.has_bias(product) {
            return Vec::new();
        }
        let parts = self.parts(layer, product).into_iter();
        parts.map(|(name, rows)| (self.within(layer, &name) + ".bias", vec![rows])).collect()
    }

    /// The tensors of a product, with their numbers of rows.
    fn parts(&self, layer: usize, product: Product) -> Vec<(String, usize)> {
        let names = &self.names;
        let (names, rows) = match product {
            Product::Qkv => {
                let (heads, count) = (self.heads_of(layer), 1 + self.layers[layer].keys.products());
                let mut rows = vec![heads.query_width()];
                rows.resize(count, heads.key_width());
                (&names.qkv[..count.min(names.qkv.len())], rows)
            }
            Product::Output => (std::slice::from_ref(&names.output), vec![self.hidden]),
            Product::Router => {
                let experts = self.experts.map_or(0, |experts| experts.count);
                (std::slice::from_ref(&names.router), vec![experts])
            }
            Product::GateUp(block) => {
                let of = if block == Mlp::Dense { names.gate_up } else { names.expert_gate_up };
                (of, vec![self.inner(layer, block); if self.gated { 2 } else { 1 }])
            }
            Product::Down(block) => {
                let of = if block == Mlp::Dense { &names.down } else { &names.expert_down };
                (std::slice::from_ref(of), vec![self.hidden])
            }
            Product::InputGate => (&[INPUT_GATE][..], vec![self.size(layer, product)[0]]),
            Product::InputOutput => (&[INPUT_OUTPUT][..], vec![self.hidden]),
        };
        let whole = |name: &str| match product {
            Product::GateUp(Mlp::Expert(expert)) | Product::Down(Mlp::Expert(expert)) => {
                format!("{}.{expert}.{name}", self.names.experts)
            }
            _ => name.to_owned(),
        };
        match names {
            [fused] => vec![(whole(fused), rows.iter().sum())],
            _ => names.iter().map(|name| whole(name)).zip(rows).collect(),
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

    /// The norms of queries and of keys; of the latter only if the layer has keys of its own.
    fn norms_of_heads(&self, layer: usize) -> Option<[Option<Described>; 2]> {
        let heads = self.heads_of(layer);
        let [queries, keys] = match self.head_norms? {
            HeadNorms::Each => [heads.width; 2],
            HeadNorms::Together => [heads.query_width(), heads.key_width()],
        };
        let norm = |name, width| (weight(&self.within(layer, name)), vec![width]);
        let [query_norm, key_norm] = self.names.head_norms;
        let key_norm = self.stores_keys(layer).then(|| norm(key_norm, keys));
        Some([Some(norm(query_norm, queries)), key_norm])
    }

    /// The sinks of attention.
    fn sinks(&self, layer: usize) -> Option<Described> {
        let name = self.names.sinks?;
        Some((self.within(layer, name), vec![self.heads_of(layer).queries]))
    }

    /// The number that a layer multiplies its output by.
    fn scalar(&self, layer: usize) -> Option<Described> {
        self.layer_scalars.then(|| (self.within(layer, SCALAR), vec![1]))
    }

    pub(super) fn within(&self, layer: usize, name: &str) -> String {
        format!("{}.{layer}.{name}", self.names.layers)
    }
}

pub(super) fn weight(name: &str) -> String {
    format!("{name}.weight")
}

impl LayerTensors<'_> {
    /// The weights of a product, one row of inputs per output.
    #[cfg(feature = "candle")]
    pub(crate) fn weights(self, product: Product) -> Result<Vec<f32>, Error> {
        self.joined(self.config.weight_parts(self.index, product))
    }

    /// The bias of a product, if it has one.
    #[cfg(feature = "candle")]
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

    /// The weights of the norms of queries and of keys, where there are any.
    pub(crate) fn head_norms(self) -> Result<[Option<Vec<f32>>; 2], Error> {
        let [queries, keys] = self.config.norms_of_heads(self.index).unwrap_or_default();
        let read = |norm: Option<_>| {
            norm.map(|norm| self.config.read_norm(self.tensors, norm)).transpose()
        };
        Ok([read(queries)?, read(keys)?])
    }

    /// The weights of the norm of values, which are all 1, if values have a norm.
    pub(crate) fn value_norm(self) -> Option<Vec<f32>> {
        let heads = self.config.heads_of(self.index);
        self.config.value_norms.then(|| vec![1.0; heads.width])
    }

    /// The number that the layer multiplies its output by.
    pub(crate) fn scalar(self) -> Result<Option<f32>, Error> {
        let Some((name, shape)) = self.config.scalar(self.index) else { return Ok(None) };
        Ok(self.tensors.get(&name, &shape)?.first().copied())
    }

    /// The sinks of attention, if there are any.
    pub(crate) fn sinks(self) -> Result<Option<Vec<f32>>, Error> {
        let sinks = self.config.sinks(self.index);
        sinks.map(|(name, shape)| self.tensors.get(&name, &shape)).transpose()
    }

    #[cfg(feature = "candle")]
    fn joined(self, parts: Vec<Described>) -> Result<Vec<f32>, Error> {
        let mut parts = parts.into_iter().map(|(name, shape)| self.tensors.get(&name, &shape));
        let mut all = parts.next().unwrap_or_else(|| Ok(Vec::new()))?;
        for part in parts {
            part.map(|part| all.extend(part))?;
        }
        Ok(all)
    }
}
