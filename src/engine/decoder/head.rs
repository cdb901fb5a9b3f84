//! The switches of heads: small decoders that read hidden states of a target.

use super::config::Config;
use super::tensors::{Described, Tensors, weight};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::model::Features;

/// The shape of a head, and what it computes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeadConfig {
    /// Its layers. Embedding and head are its own tables, as far as it has them.
    pub decoder: Config,
    /// The hidden states of the target that it reads.
    pub features: Features,
    /// How a token and a state become the input of the layers.
    pub input: HeadInput,
    /// Whether it has an embedding of its own; otherwise it shares the target's.
    pub own_embedding: bool,
    /// Whether it has a head of its own; otherwise it shares the target's.
    pub own_head: bool,
    /// Whether a norm comes before the head.
    pub last_norm: bool,
    /// What the rows of drafted tokens continue from.
    pub feedback: Feedback,
    /// The target's token for each of its own, if these differ.
    pub ids: Option<Vec<Token>>,
    /// Added to the positions of rows. Rotary positions are relative, so this changes nothing
    /// unless rows of a kind differ.
    pub positions: usize,
}

/// How a token and a state become the input of the layers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HeadInput {
    /// The first attention reads both, each with its norm, and the state goes on past it
    /// (Li et al. 2025, EAGLE-3, arXiv 2503.01840).
    SideBySide {
        /// Norms of the features before they are fused.
        fused: Norms,
        /// The norm of the embedding, and that of the state.
        norms: [&'static str; 2],
        /// Whether the normalised state goes on, instead of the state.
        normed_residual: bool,
    },
    /// A product joins both (Li et al. 2024, EAGLE, arXiv 2401.15077; DeepSeek-V3, arXiv
    /// 2412.19437, equation 21).
    Joined {
        /// The product.
        product: &'static str,
        /// Whether it adds a bias.
        bias: bool,
        /// The norm of the embedding, and that of the state, if there are any.
        norms: Option<[&'static str; 2]>,
    },
    /// The fused features of a committed token are added to its embedding; the rows of drafted
    /// tokens read the embedding alone.
    Added {
        /// Norms of the features before they are fused.
        fused: Norms,
    },
}

/// Norms of features before they are fused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Norms {
    /// None.
    None,
    /// One of all numbers.
    Whole(&'static str),
    /// One for each state; numbers follow the name.
    Each(&'static str),
}

/// What the rows of drafted tokens continue from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feedback {
    /// The output of the layers.
    Plain,
    /// The same after the last norm.
    Normed,
}

impl HeadConfig {
    /// The product that fuses the features, with its name.
    pub(crate) fn fuses(&self) -> Option<Described> {
        let fused = !matches!(self.input, HeadInput::Joined { .. });
        let shape = vec![self.decoder.hidden, self.features.width];
        fused.then(|| (weight("fc"), shape))
    }

    /// The product that joins a token and a state, with its name.
    pub(crate) fn joins(&self) -> Option<Described> {
        let HeadInput::Joined { product, .. } = self.input else { return None };
        Some((weight(product), vec![self.decoder.hidden, 2 * self.decoder.hidden]))
    }

    /// The bias of the product that joins a token and a state.
    pub(crate) fn bias(&self, tensors: &dyn Tensors) -> Result<Option<Vec<f32>>, Error> {
        match self.input {
            HeadInput::Joined { product, bias: true, .. } => {
                tensors.get(&format!("{product}.bias"), &[self.decoder.hidden]).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The norms of the features before they are fused.
    pub(crate) fn fused_norms(&self, tensors: &dyn Tensors) -> Result<Vec<Vec<f32>>, Error> {
        let (HeadInput::SideBySide { fused, .. } | HeadInput::Added { fused }) = self.input else {
            return Ok(Vec::new());
        };
        let width = self.features.width;
        let described = match fused {
            Norms::None => Vec::new(),
            Norms::Whole(name) => vec![(weight(name), vec![width])],
            Norms::Each(name) => {
                let count = self.features.taps.len();
                let each = |number| (weight(&format!("{name}.{number}")), vec![width / count]);
                (0..count).map(each).collect()
            }
        };
        described.into_iter().map(|norm| self.decoder.read_norm(tensors, norm)).collect()
    }

    /// The norms of the embedding and of the state, if there are any.
    pub(crate) fn input_norms(
        &self,
        tensors: &dyn Tensors,
    ) -> Result<Option<[Vec<f32>; 2]>, Error> {
        let [embedding, state] = match self.input {
            HeadInput::SideBySide { norms, .. } | HeadInput::Joined { norms: Some(norms), .. } => {
                norms
            }
            _ => return Ok(None),
        };
        let norm = |name| (weight(name), vec![self.decoder.hidden]);
        let read = |name| self.decoder.read_norm(tensors, norm(name));
        Ok(Some([read(embedding)?, read(state)?]))
    }

    /// Number of logits before they become those of the target's tokens.
    pub(crate) fn rows(&self, target: usize) -> usize {
        self.ids.as_ref().map_or(target, Vec::len)
    }
}
