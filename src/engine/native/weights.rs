//! The weights of a model, packed.

use super::input_weights::{InputWeights, PerLayerWeights};
use super::matrix::Matrix;
use super::memory::Memory;
use super::packer::{Linear, Wanted, next, pack};
use crate::core::error::Error;
use crate::core::lanes::IsaKind;
use crate::engine::Dtype;
use crate::engine::decoder::{Config, LayerTensors, Rotation, Tensors};

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
    /// One output per position, of models that learn them.
    positions: Option<Matrix>,
    /// From tokens to the inputs of all layers.
    pub per_layer: Option<PerLayerWeights>,
    /// Multiplies an embedding.
    scale: f32,
    /// What the rotary embeddings rotate by.
    pub rotations: Vec<Rotation>,
    /// The most words that a row takes that is packed for products at the same time.
    pub words_per_row: usize,
}

/// Weights of a layer.
#[derive(Debug)]
pub(super) struct LayerWeights {
    /// In the order of [`LayerTensors::norms`].
    pub norms: [Option<Vec<f32>>; 4],
    /// The norms of queries and of keys.
    pub head_norms: [Option<Vec<f32>>; 2],
    pub value_norm: Option<Vec<f32>>,
    /// The sinks of attention, one for each query head.
    pub sinks: Option<Vec<f32>>,
    /// Query, key and value heads.
    pub qkv: Linear,
    pub output: Linear,
    pub mlp: MlpWeights,
    /// How it reads its own input.
    pub input: Option<InputWeights>,
    /// Multiplies its output.
    pub scalar: Option<f32>,
}

/// Weights of the feed-forward block of a layer.
#[derive(Debug)]
pub(super) enum MlpWeights {
    Dense(BlockWeights),
    Sparse(SparseWeights),
}

/// Weights of a feed-forward block that is not sparse, or of an expert.
#[derive(Debug)]
pub(super) struct BlockWeights {
    /// Alternating tiles of the gate and the up projection.
    pub gate_up: Linear,
    pub down: Linear,
}

/// Weights of a sparse feed-forward block.
#[derive(Debug)]
pub(super) struct SparseWeights {
    pub router: Linear,
    /// Of the same shape.
    pub experts: Vec<BlockWeights>,
}

impl ModelWeights {
    pub(super) fn load(
        config: &Config,
        vocab: usize,
        (isa, dtype): (IsaKind, Dtype),
        tensors: &dyn Tensors,
    ) -> Result<Self, Error> {
        // Padding stays: the masks of some heads are tokens of it.
        let embedding = Wanted::table(config.embedding(), usize::MAX);
        let head = (!config.tied).then(|| Wanted::table(config.head(), vocab));
        let positions = config.positions().map(|table| Wanted::table(table, usize::MAX));
        let per_layer =
            [config.per_layer_table(), config.per_layer_product()].into_iter().flatten();
        let per_layer = per_layer.map(|table| Wanted::table(table, usize::MAX));
        let tables = [embedding].into_iter().chain(head).chain(positions).chain(per_layer);
        let wanted = tables.chain(Wanted::layers(config));
        let (memory, linears) = pack((isa, dtype), tensors, &wanted.collect::<Vec<_>>())?;
        let mut linears = linears.into_iter();
        let first = next(&mut linears)?;
        let (head, embedding) = match config.tied {
            true => (first, None),
            false => (next(&mut linears)?, Some(first.matrix)),
        };
        let positions = config.learned_positions.then(|| next(&mut linears)).transpose()?;
        let positions = positions.map(|linear| linear.matrix);
        let per_layer =
            config.per_layer.map(|_| PerLayerWeights::of(config, tensors, &mut linears));
        let per_layer = per_layer.transpose()?;
        let layers = LayerWeights::all(config, tensors, &mut linears)?;
        let norm = config.read_last_norm(tensors)?;
        let (rotations, scale) = (config.rotations(), config.embedding_scale);
        let others = per_layer.iter().map(|inputs| &inputs.product).chain([&head]);
        let others = others.map(|linear| linear.matrix.words_per_row()).max().unwrap_or(0);
        let words_per_row = words_per_row(config, &layers).max(others);
        Ok(Self {
            memory,
            layers,
            norm,
            head,
            embedding,
            positions,
            per_layer,
            scale,
            rotations,
            words_per_row,
        })
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

    /// Adds the embedding of a position to `row`, if positions have one.
    pub(super) fn add_position(&self, position: usize, row: &mut [f32]) {
        let Some(positions) = &self.positions else { return };
        let mut own = vec![0.0; row.len()];
        positions.unpack(&self.memory, position, &mut own);
        for (x, own) in row.iter_mut().zip(own) {
            *x += own;
        }
    }
}

/// The most words that a row takes in these layers that is packed for products at the same time.
pub(super) fn words_per_row(config: &Config, layers: &[LayerWeights]) -> usize {
    let words = |linear: &Linear| linear.matrix.words_per_row();
    let of_layer = |layer: &LayerWeights| {
        let mlp = match &layer.mlp {
            MlpWeights::Dense(block) => block.linears().map(words).into_iter().max(),
            // A row is packed once for each of its experts.
            MlpWeights::Sparse(sparse) => {
                let experts = config.experts_per_row() * sparse.words_per_row();
                Some(experts.max(words(&sparse.router)))
            }
        };
        let input = layer.input.iter().flat_map(InputWeights::linears).map(words).max();
        words(&layer.qkv).max(words(&layer.output)).max(mlp.unwrap_or(0)).max(input.unwrap_or(0))
    };
    layers.iter().map(of_layer).max().unwrap_or(0)
}

impl LayerWeights {
    /// The products of a row that uses `experts` experts: the first ones stand for all.
    pub(super) fn linears(&self, experts: usize) -> Vec<&Linear> {
        let mut linears = vec![&self.qkv, &self.output];
        match &self.mlp {
            MlpWeights::Dense(block) => linears.extend(block.linears()),
            MlpWeights::Sparse(sparse) => {
                linears.push(&sparse.router);
                let experts = sparse.experts.iter().take(experts);
                linears.extend(experts.flat_map(BlockWeights::linears));
            }
        }
        linears.extend(self.input.iter().flat_map(InputWeights::linears));
        linears
    }

    /// All layers, of the matrices in the order of [`Wanted::layers`].
    pub(super) fn all(
        config: &Config,
        tensors: &dyn Tensors,
        linears: &mut impl Iterator<Item = Linear>,
    ) -> Result<Vec<Self>, Error> {
        let layers = (0..config.layers.len()).map(|index| {
            let of = LayerTensors { config, index, tensors };
            Ok(Self {
                qkv: next(linears)?,
                output: next(linears)?,
                mlp: MlpWeights::of(config, index, linears)?,
                input: InputWeights::of(of, linears)?,
                norms: of.norms()?,
                head_norms: of.head_norms()?,
                value_norm: of.value_norm(),
                sinks: of.sinks()?,
                scalar: of.scalar()?,
            })
        });
        layers.collect()
    }
}

impl MlpWeights {
    fn of(
        config: &Config,
        layer: usize,
        linears: &mut impl Iterator<Item = Linear>,
    ) -> Result<Self, Error> {
        let Some(all) = config.experts.filter(|_| config.layers[layer].sparse) else {
            return BlockWeights::of(linears).map(Self::Dense);
        };
        let router = next(linears)?;
        let experts =
            (0..all.count).map(|_| BlockWeights::of(linears)).collect::<Result<_, _>>()?;
        Ok(Self::Sparse(SparseWeights { router, experts }))
    }
}

impl BlockWeights {
    fn of(linears: &mut impl Iterator<Item = Linear>) -> Result<Self, Error> {
        Ok(Self { gate_up: next(linears)?, down: next(linears)? })
    }

    fn linears(&self) -> [&Linear; 2] {
        [&self.gate_up, &self.down]
    }
}

impl SparseWeights {
    /// The most words that a row takes that is packed for an expert.
    pub(super) fn words_per_row(&self) -> usize {
        let linears = self.experts.iter().flat_map(BlockWeights::linears);
        linears.map(|linear| linear.matrix.words_per_row()).max().unwrap_or(0)
    }
}
