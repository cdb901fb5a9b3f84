//! The weights of a head, packed.

use std::sync::Arc;

use super::matrix::Matrix;
use super::memory::Memory;
use super::packer::{Linear, Wanted, in_tiles, next, pack};
use super::weights::{LayerWeights, ModelWeights, words_per_row};
use crate::core::error::Error;
use crate::core::lanes::IsaKind;
use crate::engine::Dtype;
use crate::engine::decoder::{HeadConfig, Rotation, Tensors};

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
    /// The most words that a row takes that is packed for a product of a layer.
    words_of_layers: usize,
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
        let decoder = &config.decoder;
        let embedding = config.own_embedding.then(|| config.embedding());
        let head = config.own_head.then(|| config.head());
        let most = |table| if table == HEAD { config.rows(vocab) } else { usize::MAX };
        let tables = [config.fuses(), config.joins(), embedding, head];
        let stored = tables.iter().enumerate().filter_map(|(at, table)| Some((at, table.clone()?)));
        let wanted = stored.map(|(at, table)| Wanted::table(table, most(at)));
        let wanted = wanted.chain(Wanted::layers(decoder)).collect::<Vec<_>>();
        let (memory, linears) = pack((isa, dtype), tensors, &wanted)?;
        let mut linears = linears.into_iter();
        let mut packed = [const { None }; 4];
        for (place, _) in packed.iter_mut().zip(&tables).filter(|(_, table)| table.is_some()) {
            *place = Some(next(&mut linears)?);
        }
        let [fc, mut join, embedding, head] = packed;
        if let (Some(join), Some(bias)) = (&mut join, config.read_bias(tensors)?) {
            join.bias = Some(in_tiles(&bias));
        }
        let layers = LayerWeights::all(decoder, tensors, &mut linears)?;
        Ok(Self {
            words_of_layers: words_per_row(decoder, &layers),
            layers,
            fc,
            fused_norms: config.read_fused_norms(tensors)?,
            join,
            input_norms: config.read_input_norms(tensors)?,
            context_norm: config.read_context_norm(tensors)?,
            norm: config.last_norm.then(|| decoder.read_last_norm(tensors)).transpose()?,
            embedding: embedding.map(|linear: Linear| linear.matrix),
            head,
            target: Arc::clone(target),
            rotations: decoder.rotations(),
            memory,
        })
    }

    /// The most words that a row takes that is packed for a product.
    pub(super) fn words_per_row(&self) -> usize {
        let others = [&self.fc, &self.join].into_iter().flatten().chain([self.head().1]);
        let others = others.map(|linear| linear.matrix.words_per_row()).max().unwrap_or(0);
        self.words_of_layers.max(others)
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
