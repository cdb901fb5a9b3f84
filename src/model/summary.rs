//! What a model is, from its configuration, its tokenizer and the headers of its weights:
//! nothing that takes long to read, and no weights.

use std::collections::BTreeMap;

use super::decoder::Config;
use super::hf::HfTokenizer;

/// A model in a few numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSummary {
    /// The kind of architecture, as its files call it; `toy` for toys.
    pub family: String,
    /// Number of stored weights.
    pub parameters: u64,
    /// Bytes of the files that hold them.
    pub bytes: u64,
    /// The type in which most are stored.
    pub dtype: String,
    /// Number of tokens.
    pub vocab: usize,
    /// See [`ModelInfo::tokenizer_sha256`](super::ModelInfo::tokenizer_sha256).
    pub tokenizer_sha256: String,
}

impl ModelSummary {
    /// The summary of a model whose files have `bytes` bytes; `tensors` are their types and
    /// numbers of weights.
    pub(super) fn new(
        config: Config,
        codec: &HfTokenizer,
        bytes: u64,
        tensors: impl Iterator<Item = (String, u64)>,
    ) -> Self {
        let mut weights = BTreeMap::new();
        tensors.for_each(|(dtype, number)| *weights.entry(dtype).or_insert(0) += number);
        let most = weights.iter().max_by_key(|(_, number)| **number);
        Self {
            family: config.model_type,
            parameters: weights.values().sum(),
            bytes,
            dtype: most.map_or_else(String::new, |(dtype, _)| dtype.to_lowercase()),
            vocab: codec.vocab(),
            tokenizer_sha256: codec.fingerprint(),
        }
    }

    /// Whether the model may propose tokens to `target`: both have the same tokens, and it
    /// is not the larger one.
    pub fn can_draft_for(&self, target: &Self) -> bool {
        self.tokenizer_sha256 == target.tokenizer_sha256 && self.parameters <= target.parameters
    }
}
