//! What a model is, from its configuration, its tokenizer and the headers of its weights:
//! nothing that takes long to read, and no weights.

use std::collections::BTreeMap;

use crate::model::HiddenStates;

/// A model in a few numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelSummary {
    /// The kind of architecture, as its files call it; `toy` for toys.
    pub family: String,
    /// Number of stored weights.
    pub parameters: u64,
    /// Bytes of the files that hold them.
    pub bytes: u64,
    /// The type in which most are stored.
    pub dtype: String,
    /// Number of tokens; 0 for a head, which has its target's.
    pub vocab: usize,
    /// The hidden states that heads can read.
    pub hidden: Option<HiddenStates>,
    /// See [`ModelInfo::tokenizer_sha256`](crate::model::ModelInfo::tokenizer_sha256).
    pub tokenizer_sha256: String,
}

impl ModelSummary {
    /// A summary of tensors alone, given by types and numbers of weights.
    pub(crate) fn of_tensors(tensors: impl Iterator<Item = (String, u64)>) -> Self {
        let mut weights = BTreeMap::new();
        for (dtype, number) in tensors {
            *weights.entry(dtype).or_insert(0) += number;
        }
        let most = weights.iter().max_by_key(|(_, number)| **number);
        Self {
            parameters: weights.values().sum(),
            dtype: most.map_or_else(String::new, |(dtype, _)| dtype.to_lowercase()),
            ..Self::default()
        }
    }

    /// Whether it is a head, which drafts for a target only.
    pub fn is_head(&self) -> bool {
        self.vocab == 0
    }

    /// Whether the model may propose tokens to `target`: both have the same tokens, and it
    /// is not the larger one.
    pub fn can_draft_for(&self, target: &Self) -> bool {
        let alike = self.tokenizer_sha256 == target.tokenizer_sha256;
        alike && !self.is_head() && self.parameters <= target.parameters
    }
}
