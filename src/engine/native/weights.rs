//! The weights of a model, packed.

use super::matrix::{Matrix, MatrixRows};
use super::memory::{Builder, Memory};
use super::segments::{Order, SegmentPlan, plan};
use crate::core::error::Error;
use crate::core::lanes::{IsaKind, LANES};
use crate::engine::Dtype;
use crate::engine::blocks::{RawRows, TensorKind};
use crate::engine::decoder::{Config, Described, LayerTensors, Product, Rotation, Tensors};

/// All weights.
#[derive(Debug)]
pub(super) struct ModelWeights {
    pub memory: Memory,
    pub layers: Vec<LayerWeights>,
    pub norm: Vec<f32>,
    /// From a hidden state to the logits of the real vocabulary; in a tied model also
    /// the embedding.
    pub head: Linear,
    /// One output per token; absent in a tied model.
    embedding: Option<Matrix>,
    /// Multiplies an embedding.
    scale: f32,
    /// What the rotary embeddings rotate by.
    pub rotations: Vec<Rotation>,
}

/// Weights of a layer.
#[derive(Debug)]
pub(super) struct LayerWeights {
    /// In the order of [`LayerTensors::norms`].
    pub norms: [Option<Vec<f32>>; 4],
    /// The norms of queries and of keys.
    pub head_norms: Option<[Vec<f32>; 2]>,
    /// The sinks of attention, one for each query head.
    pub sinks: Option<Vec<f32>>,
    /// Query, key and value heads.
    pub qkv: Linear,
    pub output: Linear,
    /// Alternating tiles of the gate and the up projection.
    pub gate_up: Linear,
    pub down: Linear,
}

/// A product with weights, and what is added to it.
#[derive(Debug)]
pub(super) struct Linear {
    pub matrix: Matrix,
    /// Tile by tile, padded with zeros.
    pub bias: Option<Vec<[f32; LANES]>>,
}

impl ModelWeights {
    pub(super) fn load(
        config: &Config,
        vocab: usize,
        (isa, dtype): (IsaKind, Dtype),
        tensors: &dyn Tensors,
    ) -> Result<Self, Error> {
        let tensors: &dyn Tensors = &Checked { tensors, dtype };
        let mut packer = Packer { isa, dtype, tensors, memory: Builder::new(0)? };
        packer.memory = Builder::new(packer.bytes(config, vocab))?;
        let norm = config.read_last_norm(tensors)?;
        // The tables are packed first, while the memory for the layers is still
        // untouched. The peak is then little more than the larger of two sizes: all
        // packed weights, or the packed tables plus one table in f32.
        // Padding stays: the masks of some heads are tokens of it.
        let embedding = packer.table(config.embedding(), usize::MAX)?;
        let (head, embedding) = match config.tied {
            true => (embedding, None),
            false => (packer.table(config.head(), vocab)?, Some(embedding)),
        };
        let head = Linear { matrix: head, bias: None };
        let layers = (0..config.layers.len())
            .map(|index| LayerWeights::load(LayerTensors { config, index, tensors }, &mut packer));
        let layers = layers.collect::<Result<Vec<_>, _>>()?;
        let (rotations, scale) = (config.rotations(), config.embedding_scale);
        let memory = packer.memory.finish()?;
        Ok(Self { memory, layers, norm, head, embedding, scale, rotations })
    }

    /// The most words that a row takes that is packed for a product.
    pub(super) fn words_per_row(&self) -> usize {
        let linears = self.layers.iter().flat_map(LayerWeights::linears);
        let words = linears.chain([&self.head]).map(|linear| linear.matrix.words_per_row());
        words.max().unwrap_or(0)
    }

    /// The embeddings of all tokens, without what multiplies them.
    pub(super) fn table(&self) -> &Matrix {
        self.embedding.as_ref().unwrap_or(&self.head.matrix)
    }

    /// Writes the embedding of a token to `row`.
    pub(super) fn embed(&self, token: usize, row: &mut [f32]) {
        self.table().unpack(&self.memory, token, row);
        for x in row {
            *x *= self.scale;
        }
    }
}

impl LayerWeights {
    /// All products.
    pub(super) fn linears(&self) -> [&Linear; 4] {
        [&self.qkv, &self.output, &self.gate_up, &self.down]
    }

    pub(super) fn load(tensors: LayerTensors<'_>, packer: &mut Packer<'_>) -> Result<Self, Error> {
        let mut linear = |product| packer.linear(tensors, product);
        Ok(Self {
            qkv: linear(Product::Qkv)?,
            output: linear(Product::Output)?,
            gate_up: linear(Product::GateUp)?,
            down: linear(Product::Down)?,
            norms: tensors.norms()?,
            head_norms: tensors.head_norms()?,
            sinks: tensors.sinks()?,
        })
    }
}

/// Packs the matrices of a model.
pub(super) struct Packer<'t> {
    pub isa: IsaKind,
    pub dtype: Dtype,
    pub tensors: &'t dyn Tensors,
    pub memory: Builder,
}

impl Packer<'_> {
    /// Packs the first rows of a table.
    pub(super) fn table(&mut self, table: Described, rows: usize) -> Result<Matrix, Error> {
        self.matrix(vec![table], rows, Order::AsStored)
    }

    /// Packs at most `most` rows of tensors, one after the other.
    fn matrix(
        &mut self,
        parts: Vec<Described>,
        most: usize,
        order: Order,
    ) -> Result<Matrix, Error> {
        let mut matrix = Matrix::new(self.isa, parts.first().map_or(0, |(_, shape)| shape[1]));
        for segment in self.plan(parts, order) {
            self.extend(&mut matrix, &segment, most, order)?;
        }
        Ok(matrix)
    }

    /// Packs the weights of a product; those of a segment are freed before the next ones are
    /// read.
    fn linear(&mut self, tensors: LayerTensors<'_>, product: Product) -> Result<Linear, Error> {
        let order = order(product);
        let matrix = self.matrix(tensors.parts(product), usize::MAX, order)?;
        let bias = tensors.bias(product)?;
        let bias = bias.map(|bias| in_tiles(&order.of(&rows_of(&bias, 1), &[0.0]).concat()));
        Ok(Linear { matrix, bias })
    }

    /// Packs at most `most` rows of a segment.
    fn extend(
        &mut self,
        matrix: &mut Matrix,
        segment: &SegmentPlan,
        most: usize,
        order: Order,
    ) -> Result<(), Error> {
        let (storage, inputs) = (segment.storage, matrix.inputs());
        if storage.is_blocks() {
            let mut blocks = Vec::new();
            for (name, shape) in &segment.tensors {
                blocks.push((shape[0], self.tensors.raw(name, shape)?.blocks));
            }
            let rows =
                blocks.iter().flat_map(|(rows, blocks)| rows_of(blocks, blocks.len() / rows));
            let rows = order.of(&rows.take(most).collect::<Vec<_>>(), &[]);
            matrix.extend(&mut self.memory, storage, &MatrixRows::Blocks(&rows));
            return Ok(());
        }
        let mut numbers = Vec::new();
        for (name, shape) in &segment.tensors {
            numbers.push(self.tensors.get(name, shape)?);
        }
        let nothing = vec![0.0; inputs];
        let rows = numbers.iter().flat_map(|numbers| rows_of(numbers, inputs));
        let rows = order.of(&rows.take(most).collect::<Vec<_>>(), &nothing);
        matrix.extend(&mut self.memory, storage, &MatrixRows::Numbers(&rows));
        Ok(())
    }

    /// Bytes of all packed matrices.
    fn bytes(&self, config: &Config, vocab: usize) -> usize {
        let tables = [(config.embedding(), usize::MAX), (config.head(), vocab)].into_iter();
        let tables = tables.take(if config.tied { 1 } else { 2 });
        let tables = tables.map(|(table, rows)| self.bytes_of(vec![table], Order::AsStored, rows));
        tables.sum::<usize>() + self.bytes_of_layers(config)
    }

    /// Bytes of at most `most` rows of tensors, one after the other.
    pub(super) fn bytes_of(&self, tensors: Vec<Described>, order: Order, most: usize) -> usize {
        let segments = self.plan(tensors, order).into_iter();
        segments.map(|segment| segment.bytes(order, most)).sum()
    }

    /// Bytes of all packed matrices of the layers.
    pub(super) fn bytes_of_layers(&self, config: &Config) -> usize {
        let layers = (0..config.layers.len()).flat_map(|index| {
            let layer = LayerTensors { config, index, tensors: self.tensors };
            let product = move |product| (layer.parts(product), product);
            Product::ALL.map(product)
        });
        let bytes = |(parts, product)| self.bytes_of(parts, order(product), usize::MAX);
        layers.map(bytes).sum()
    }

    fn plan(&self, tensors: Vec<Described>, order: Order) -> Vec<SegmentPlan> {
        plan(self.dtype, self.tensors, tensors, order)
    }
}

/// The order of the rows of a product.
fn order(product: Product) -> Order {
    if product == Product::GateUp { Order::HalvesInTurns } else { Order::AsStored }
}

/// Tensors whose weights are finite as a type stores them.
pub(super) struct Checked<'a> {
    pub tensors: &'a dyn Tensors,
    pub dtype: Dtype,
}

impl Tensors for Checked<'_> {
    fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let weights = self.tensors.get(name, shape)?;
        // Only matrices are stored in another type.
        let &[_, inputs] = shape else { return Ok(weights) };
        // Magnitudes are ordered like their bits, and the comparison of these is
        // vectorised.
        let largest = weights.iter().fold(0, |most: u32, x| most.max(x.abs().to_bits()));
        let largest = f32::from_bits(largest);
        if self.dtype.stored(inputs).holds(largest) {
            return Ok(weights);
        }
        let dtype = self.dtype.name();
        Err(Error::setting(format!(
            "tensor {name} has a weight of magnitude {largest:e}, which {dtype} cannot hold: \
             choose another dtype"
        )))
    }

    fn kind(&self, name: &str) -> TensorKind {
        self.tensors.kind(name)
    }

    fn raw(&self, name: &str, shape: &[usize]) -> Result<RawRows, Error> {
        self.tensors.raw(name, shape)
    }

    fn sha256(&self) -> Result<String, Error> {
        self.tensors.sha256()
    }
}

/// The rows of a matrix.
fn rows_of<T>(matrix: &[T], width: usize) -> Vec<&[T]> {
    matrix.chunks_exact(width).collect()
}

/// Numbers in tiles, padded with zeros.
pub(super) fn in_tiles(numbers: &[f32]) -> Vec<[f32; LANES]> {
    let tile = |part: &[f32]| std::array::from_fn(|i| part.get(i).copied().unwrap_or(0.0));
    numbers.chunks(LANES).map(tile).collect()
}
