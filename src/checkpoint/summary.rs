//! What a model is, from its configuration, its tokenizer and the headers of its weights:
//! nothing that takes long to read, and no weights.

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
    /// See [`ModelInfo::tokenizer_sha256`](crate::model::ModelInfo::tokenizer_sha256).
    pub tokenizer_sha256: String,
}

impl ModelSummary {
    /// Whether the model may propose tokens to `target`: both have the same tokens, and it
    /// is not the larger one.
    pub fn can_draft_for(&self, target: &Self) -> bool {
        self.tokenizer_sha256 == target.tokenizer_sha256 && self.parameters <= target.parameters
    }
}
