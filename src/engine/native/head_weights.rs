//! The weights of a head, packed.

use std::sync::Arc;

use super::matrix::Matrix;
use super::memory::{Builder, Memory};
use super::segments::Order;
use super::weights::{Checked, LayerWeights, Linear, ModelWeights, Packer, in_tiles};
use crate::core::error::Error;
use crate::core::lanes::IsaKind;
use crate::engine::Dtype;
use crate::engine::decoder::{HeadConfig, LayerTensors, Rotation, Tensors};

/// All weights of a head, and the tables of the target.
#[derive(Debug)]
pub(super) struct HeadWeights {
    pub memory: Memory,
    pub layers: Vec<LayerWeights>,
    /// Fuses features.
    pub fc: Option<Linear>,
    /// The norms of features before they are fused.
    pub fused_norms: Vec<Vec<f32>>,
    /// Joins a token and a state.
    pub join: Option<Linear>,
    /// The norms of the embedding and of the state.
    pub input_norms: Option<[Vec<f32>; 2]>,
    /// The norm of fused features, of a block.
    pub context_norm: Option<Vec<f32>>,
    pub norm: Option<Vec<f32>>,
    /// Its own embedding and head.
    embedding: Option<Matrix>,
    head: Option<Linear>,
    /// Shared with the target, not copied.
    target: Arc<ModelWeights>,
    pub rotations: Vec<Rotation>,
}

/// The place of the head among the tables.
const HEAD: usize = 3;

impl HeadWeights {
    /// Packs the weights of a head on a target with `vocab` tokens.
    pub(super) fn load(
        config: &HeadConfig,
        (target, vocab): (&Arc<ModelWeights>, usize),
        (isa, dtype): (IsaKind, Dtype),
        tensors: &dyn Tensors,
    ) -> Result<Self, Error> {
        let tensors: &dyn Tensors = &Checked { tensors, dtype };
        let decoder = &config.decoder;
        let embedding = config.own_embedding.then(|| config.embedding());
        let head = config.own_head.then(|| config.head());
        let most = |table| if table == HEAD { config.rows(vocab) } else { usize::MAX };
        let tables = [config.fuses(), config.joins(), embedding, head];
        let mut packer = Packer { isa, dtype, tensors, memory: Builder::new(0)? };
        let stored = tables.iter().enumerate().filter_map(|(at, table)| Some((at, table.clone()?)));
        let bytes =
            stored.map(|(at, table)| packer.bytes_of(vec![table], Order::AsStored, most(at)));
        packer.memory = Builder::new(bytes.sum::<usize>() + packer.bytes_of_layers(decoder))?;
        let mut packed = Vec::with_capacity(tables.len());
        for (at, table) in tables.into_iter().enumerate() {
            let matrix = table.map(|table| packer.table(table, most(at))).transpose()?;
            packed.push(matrix.map(|matrix| Linear { matrix, bias: None }));
        }
        let [fc, mut join, embedding, head] = <[_; 4]>::try_from(packed)
            .map_err(|_| Error::engine("a head has four tables at most"))?;
        if let (Some(join), Some(bias)) = (&mut join, config.read_bias(tensors)?) {
            join.bias = Some(in_tiles(&bias));
        }
        let layers = (0..decoder.layers.len()).map(|index| {
            LayerWeights::load(LayerTensors { config: decoder, index, tensors }, &mut packer)
        });
        let layers = layers.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            layers,
            fc,
            fused_norms: config.read_fused_norms(tensors)?,
            join,
            input_norms: config.read_input_norms(tensors)?,
            context_norm: config.read_context_norm(tensors)?,
            norm: config.last_norm.then(|| decoder.read_last_norm(tensors)).transpose()?,
            embedding: embedding.map(|linear| linear.matrix),
            head,
            target: Arc::clone(target),
            rotations: decoder.rotations(),
            memory: packer.memory.finish()?,
        })
    }

    /// The most words that a row takes that is packed for a product.
    pub(super) fn words_per_row(&self) -> usize {
        let layers = self.layers.iter().flat_map(LayerWeights::linears);
        let others = [&self.fc, &self.join].into_iter().flatten().chain([self.head().1]);
        let words = layers.chain(others).map(|linear| linear.matrix.words_per_row());
        words.max().unwrap_or(0)
    }

    /// Writes the embedding of a token to `row`, as the table has it.
    pub(super) fn embed(&self, token: usize, row: &mut [f32]) {
        match &self.embedding {
            Some(own) => own.unpack(&self.memory, token, row),
            None => self.target.table().unpack(&self.target.memory, token, row),
        }
    }

    /// The head with the memory that holds it.
    pub(super) fn head(&self) -> (&Memory, &Linear) {
        match &self.head {
            Some(own) => (&self.memory, own),
            None => (&self.target.memory, &self.target.head),
        }
    }
}
