//! The switches of heads: small decoders that read hidden states of a target. The formats of heads
//! are settings of them.

use super::block::Drafting;
use super::config::Config;
use super::names::TensorNames;
use super::tensors::{Described, Tensors, weight};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::engine::{Dtype, Feedback};
use crate::model::{Features, HeadFault};

/// The shape of a head, and what it computes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeadConfig {
    /// Its layers, with the tables that it has of its own.
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
    /// Whether the first row has zeros for its embedding.
    pub zero_first: bool,
    /// How it drafts.
    pub drafting: Drafting,
}

/// How a token and a state become the input of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadInput {
    /// The first attention reads both, each with its norm, and the state continues past it
    /// (Li et al. 2025, EAGLE-3, arXiv 2503.01840).
    SideBySide {
        /// The norms of the features before they are fused.
        fused: FusedNorms,
        /// Whether the normalised state continues, instead of the state.
        normed_residual: bool,
    },
    /// A product joins both (Li et al. 2024, EAGLE, arXiv 2401.15077; DeepSeek-V3, arXiv
    /// 2412.19437, equation 21).
    Joined {
        /// Whether the product adds a bias.
        bias: bool,
        /// Whether embedding and state have norms.
        normed: bool,
        /// Whether the product reads the state first.
        state_first: bool,
    },
    /// The fused features of a committed token are added to its embedding; the rows of drafted
    /// tokens read the embedding alone.
    Added {
        /// The norms of the features before they are fused.
        fused: FusedNorms,
    },
    /// The fused features, after a norm, are what every layer of a block has for the context; its
    /// rows read embeddings alone.
    Context,
}

/// Norms of features before they are fused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FusedNorms {
    /// None.
    None,
    /// One of all numbers.
    Whole,
    /// One for each state.
    Each,
}

/// The names of a head's tensors; formats map theirs to these.
impl TensorNames {
    /// Those of the layers and tables of a head.
    pub(crate) const HEAD: Self = Self {
        embedding: "embed_tokens",
        layers: "layers",
        norm: "norm",
        head: "lm_head",
        ..Self::LLAMA
    };
}

/// Fuses features.
pub(crate) const FC: &str = "fc";
/// The norms of features; a number follows if each state has one.
pub(crate) const FC_NORM: &str = "fc_norm";
/// Joins a token and a state.
pub(crate) const JOIN: &str = "join";
/// The norms of embedding and state.
pub(crate) const EMBEDDING_NORM: &str = "embedding_norm";
pub(crate) const STATE_NORM: &str = "state_norm";

impl HeadConfig {
    /// The product that fuses the features.
    pub(crate) fn fuses(&self) -> Option<Described> {
        let fused = !matches!(self.input, HeadInput::Joined { .. });
        fused.then(|| (weight(FC), vec![self.decoder.hidden, self.features.width]))
    }

    /// The product that joins a token and a state.
    pub(crate) fn joins(&self) -> Option<Described> {
        let joined = matches!(self.input, HeadInput::Joined { .. });
        joined.then(|| (weight(JOIN), vec![self.decoder.hidden, 2 * self.decoder.hidden]))
    }

    /// The bias of the product that joins a token and a state.
    fn bias(&self) -> Option<Described> {
        let bias = matches!(self.input, HeadInput::Joined { bias: true, .. });
        bias.then(|| (format!("{JOIN}.bias"), vec![self.decoder.hidden]))
    }

    /// The norms of the features before they are fused.
    fn fused_norms(&self) -> Vec<Described> {
        let (HeadInput::SideBySide { fused, .. } | HeadInput::Added { fused }) = self.input else {
            return Vec::new();
        };
        let (width, count) = (self.features.width, self.features.taps.len());
        let each = |number| (weight(&format!("{FC_NORM}.{number}")), vec![width / count]);
        match fused {
            FusedNorms::None => Vec::new(),
            FusedNorms::Whole => vec![(weight(FC_NORM), vec![width])],
            FusedNorms::Each => (0..count).map(each).collect(),
        }
    }

    /// The norms of embedding and state, if there are any.
    fn input_norms(&self) -> Option<[Described; 2]> {
        let normed = match self.input {
            HeadInput::SideBySide { .. } => true,
            HeadInput::Joined { normed, .. } => normed,
            HeadInput::Added { .. } | HeadInput::Context => false,
        };
        let normed = normed && self.features.fault != Some(HeadFault::InputNormsMissing);
        let norm = |name| (weight(name), vec![self.decoder.hidden]);
        normed.then(|| [EMBEDDING_NORM, STATE_NORM].map(norm))
    }

    /// The norm of fused features, of a block.
    fn context_norm(&self) -> Option<Described> {
        let is_block = self.input == HeadInput::Context;
        let missing = self.features.fault == Some(HeadFault::FeatureNormsMissing);
        (is_block && !missing).then(|| (weight(STATE_NORM), vec![self.decoder.hidden]))
    }

    /// Names and shapes of all tensors of its own.
    pub(crate) fn tensors(&self) -> Vec<Described> {
        let mut all = self.decoder.layers().collect::<Vec<_>>();
        all.extend([self.fuses(), self.joins(), self.bias()].into_iter().flatten());
        all.extend(self.fused_norms());
        all.extend(self.input_norms().into_iter().flatten());
        all.extend(self.context_norm());
        let widths = (self.decoder.hidden, self.features.width);
        all.extend(self.drafting.tensors(widths, (self.decoder.vocab_rows, self.table_rows())));
        all.extend(self.last_norm.then(|| self.decoder.last_norm()));
        all.extend(self.own_embedding.then(|| self.embedding()));
        all.extend(self.own_head.then(|| self.head()));
        all
    }

    /// Its own embedding, padding included.
    pub(crate) fn embedding(&self) -> Described {
        self.decoder.embedding()
    }

    /// Its own head, padding included.
    pub(crate) fn head(&self) -> Described {
        (self.decoder.head().0, vec![self.table_rows(), self.decoder.hidden])
    }

    /// Rows of tables with a row for each of its tokens, padding included.
    pub(crate) fn table_rows(&self) -> usize {
        self.ids.as_ref().map_or(self.decoder.vocab_rows, Vec::len)
    }

    /// Number of its tokens; `vocab` is that of the target's.
    pub(crate) fn rows(&self, vocab: usize) -> usize {
        self.ids.as_ref().map_or(vocab, Vec::len)
    }

    /// Bytes of the matrices that the row of a drafted token reads.
    pub(crate) fn matrix_bytes(&self, vocab: usize, dtype: Dtype, tensors: &dyn Tensors) -> usize {
        let layers = self.decoder.matrix_bytes(0, dtype, tensors);
        let others =
            [self.joins(), Some((self.head().0, vec![self.rows(vocab), self.decoder.hidden]))]
                .into_iter()
                .flatten();
        let bytes = |(name, shape): (String, Vec<usize>)| {
            dtype.bytes(shape[0], shape[1], tensors.kind(&name))
        };
        layers + others.map(bytes).sum::<usize>()
    }

    /// The weights of [`Self::bias`].
    pub(crate) fn read_bias(&self, tensors: &dyn Tensors) -> Result<Option<Vec<f32>>, Error> {
        self.bias().map(|(name, shape)| tensors.get(&name, &shape)).transpose()
    }

    /// The weights of [`Self::fused_norms`].
    pub(crate) fn read_fused_norms(&self, tensors: &dyn Tensors) -> Result<Vec<Vec<f32>>, Error> {
        let norms = self.fused_norms().into_iter();
        norms.map(|norm| self.decoder.read_norm(tensors, norm)).collect()
    }

    /// The weights of [`Self::context_norm`].
    pub(crate) fn read_context_norm(
        &self,
        tensors: &dyn Tensors,
    ) -> Result<Option<Vec<f32>>, Error> {
        self.context_norm().map(|norm| self.decoder.read_norm(tensors, norm)).transpose()
    }

    /// The weights of the norms of embedding and state.
    pub(crate) fn read_input_norms(
        &self,
        tensors: &dyn Tensors,
    ) -> Result<Option<[Vec<f32>; 2]>, Error> {
        let Some([embedding, state]) = self.input_norms() else { return Ok(None) };
        let read = |norm| self.decoder.read_norm(tensors, norm);
        Ok(Some([read(embedding)?, read(state)?]))
    }
}
