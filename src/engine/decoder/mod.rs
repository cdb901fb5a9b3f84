//! The decoder that all families of models are settings of: norms, attention with rotary
//! positions and grouped queries, gated feed-forward blocks (Touvron et al. 2023,
//! arXiv 2302.13971, and its successors). This module holds what every engine needs; the
//! engines themselves are in sibling modules.

mod block;
mod config;
mod experts;
mod head;
mod layer;
mod medusa;
mod names;
mod per_layer;
mod rope;
mod tensors;

pub(crate) use block::{
    Ahead, Behind, BlockShape, CONFIDENCE, Confidence, Drafting, Markov, MarkovKind, Sight,
    mask_embedding,
};
#[cfg(feature = "candle")]
pub(crate) use config::Mlp;
pub(crate) use config::{Activation, Biases, Config, HeadNorms, Product, visible_from};
pub(crate) use experts::{Choice, Experts};
pub(crate) use head::{
    EMBEDDING_NORM, FC, FC_NORM, FusedNorms, HeadConfig, HeadInput, JOIN, STATE_NORM,
};
pub(crate) use layer::{HeadSizes, KeySource, LayerInput, LayerKind, PerLayerInputs};
pub(crate) use medusa::MedusaConfig;
pub(crate) use names::{NORMS_AFTER, NORMS_AROUND, TensorNames};
pub(crate) use per_layer::PerLayerScales;
pub(crate) use rope::{Rope, Rotation, Scaling, angles};
pub(crate) use tensors::{Described, LayerTensors, Tensors};

use crate::core::distribution::Token;
use crate::core::sampling::Logits;

/// A row of logits with −inf for ids that the tokenizer does not use.
pub(super) fn masked(mut row: Vec<f32>, unused: &[Token]) -> Logits {
    for &token in unused {
        row[token as usize] = f32::NEG_INFINITY;
    }
    Logits::F32(row)
}
