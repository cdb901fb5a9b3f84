//! Language models: one trait, the sequences that models work on, and the
//! implementations. This is the only module of the project that names candle.

mod block;
mod cache_dtype;
#[cfg(feature = "engine")]
mod chained_heads;
mod codec;
pub(crate) mod conversation;
pub(crate) mod date;
mod early;
mod early_rows;
mod evaluate;
mod evaluate_heads;
mod experts;
mod head_fault;
mod kv_cache;
mod parallel;
#[cfg(feature = "harness")]
mod prefilled;
mod random_toy;
mod session;
mod session_blocks;
mod session_faults;
mod session_states;
mod step;
mod taps;
pub(crate) mod toy;
mod toy_block;
mod toy_cache;
mod toy_drafter;
mod toy_head;
mod toy_rules;
mod toy_states;
#[cfg(feature = "engine")]
pub(crate) mod uncached;
mod vocabulary;
pub mod zoo;

pub use block::{Block, BlockPrediction, BlockRow, BlockStart, BlockStep};
pub use cache_dtype::CacheDtype;
#[cfg(feature = "engine")]
pub(crate) use chained_heads::ChainedHeads;
pub use codec::{Codec, Letters, Loaded, Spelling, Words};
pub use conversation::{ChatMessage, Conversation, read_tools};
pub use date::ChatDate;
pub use early_rows::Part;
pub use evaluate::Computed;
pub use evaluate_heads::HeadStep;
pub use experts::ExpertBytes;
pub use head_fault::HeadFault;
pub use kv_cache::KvCache;
#[cfg(feature = "engine")]
pub(crate) use kv_cache::NoRows;
pub(crate) use parallel::ParallelModel;
#[cfg(feature = "harness")]
pub use prefilled::Prefilled;
pub use session::Session;
pub use step::{Feed, Step};
pub use taps::{Features, HiddenStates, ModelInputs, Tap};
pub use toy::{Toy, ToyDrafts, ToyPair, hex};
pub use toy_block::block_text;
pub use toy_rules::{brackets, without_repeats};
pub use vocabulary::{SharedVocabulary, TranslatedModel, Vocabulary, check_pair};

use std::any::Any;

use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::{ForEachRow, Logits};
use crate::core::tree::{Draft, Row};

/// The role of a model; a toy pair contains both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The target, whose distribution the output must have.
    Target,
    /// The draft model, which proposes tokens.
    Draft,
}

/// A model that scores the next token after any number of positions at once.
pub trait LanguageModel: std::fmt::Debug {
    /// Metadata of the model.
    fn info(&self) -> &ModelInfo;

    /// A new, empty sequence with a cache of its own.
    ///
    /// # Errors
    /// If the cache cannot be allocated.
    fn session(&self) -> Result<Session, Error>;

    /// Computes the wanted rows of one or many sequences in one pass.
    /// Tokens that a session has cached already are not computed again.
    ///
    /// # Errors
    /// If a sequence does not fit the context, or the engine fails.
    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error>;

    /// What computes: two models with the same one are one model, wrapped or not, and may compute
    /// their sequences in one pass.
    fn identity(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// The number of threads that a pass over `rows` rows uses.
    fn threads(&self, rows: usize) -> usize {
        let _ = rows;
        1
    }

    /// Bytes that a token takes in the cache of a session; 0 without a cache.
    fn cache_bytes_per_token(&self) -> usize {
        0
    }

    /// What a head may share with it, of the engine's own type; `None` for wrappers and engines
    /// without heads.
    fn tables(&self) -> Option<Box<dyn Any>> {
        None
    }

    /// Spreads work on the rows of logits over the engine's threads, if it has any.
    fn for_each_row(&self) -> ForEachRow {
        ForEachRow::default()
    }
}

/// One sequence's part of a pass.
#[derive(Debug)]
pub struct Work<'a> {
    /// The sequence.
    pub session: &'a mut Session,
    /// Its committed tokens, never empty.
    pub context: &'a [Token],
    /// Proposed tokens after the context.
    pub draft: &'a Draft,
    /// The rows to return.
    pub want: Want<'a>,
}

/// Which rows of logits a pass returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want<'w> {
    /// None: the pass only fills the cache (prefill).
    Nothing,
    /// Row 0 and one row per node.
    All,
    /// One row.
    Row(Row),
    /// These rows, ascending.
    Rows(&'w [Row]),
}

impl Want<'_> {
    /// The wanted rows for a draft of `nodes` nodes.
    pub fn rows(&self, nodes: usize) -> Vec<usize> {
        match self {
            Want::Nothing => Vec::new(),
            Want::All => (0..=nodes).collect(),
            Want::Row(row) => vec![row.number()],
            Want::Rows(rows) => rows.iter().map(|row| row.number()).collect(),
        }
    }
}

/// What a pass returns for one sequence.
#[derive(Debug, Clone, Default)]
pub struct Evaluation {
    /// The wanted rows, in the order of [`Want::rows`]; each covers the real
    /// vocabulary only (padding rows of a checkpoint are cut off).
    pub rows: Vec<Logits>,
    /// Number of tokens the pass computed.
    pub computed: usize,
    /// Distinct experts that the pass needed for all of its sequences, summed over the sparse layers;
    /// of a prefill in several passes, the sum over these. 0 without experts.
    pub experts: usize,
    /// Of a drafter that estimates it: by wanted row, the probability that the token after it will
    /// be accepted.
    pub confidences: Vec<f64>,
}

/// The name of the CPU, the device that every build has.
pub const CPU: &str = "cpu";

/// Metadata of a model, as far as it matters to results.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// Name or path by which it was requested.
    pub name: String,
    /// The commit of the Hugging Face repository that it is from, if it was found by the
    /// name of one.
    pub revision: Option<String>,
    /// Number of real tokens; those of a draft model as it is used must be the target's.
    pub vocab: usize,
    /// The largest number of positions.
    pub context_length: usize,
    /// Tokens that end a text.
    pub eos: Vec<Token>,
    /// Which code computes the logits: `toy`, `native`, `candle`.
    pub engine: &'static str,
    /// Type of the weights in memory: `f64`, `f32`, `bf16`, `f16`, `q8_0`.
    pub dtype: &'static str,
    /// How it stores keys and values.
    pub cache_dtype: CacheDtype,
    /// The device that holds the weights: [`CPU`], `cuda:N` or `metal`.
    pub device: String,
    /// SHA-256 over weights, configuration and tokenizer.
    pub sha256: String,
    /// SHA-256 of the map from token to id: equal for models with the same tokens.
    pub tokenizer_sha256: String,
    /// Number of parameters.
    pub parameters: usize,
    /// Number of weights in the projections: those that a prefill multiplies with.
    pub projection_weights: usize,
    /// Bytes of weights read for one token (projections and head; of experts, as many as it uses).
    pub bytes_per_token: usize,
    /// The experts of its sparse layers, if it has any.
    pub experts: Option<ExpertBytes>,
    /// Whether the logits of a token are bit-identical in every pass.
    pub row_invariant: bool,
    /// The hidden states that it can return, for heads.
    pub hidden: Option<HiddenStates>,
    /// What its rows depend on.
    pub inputs: ModelInputs,
    /// The deepest draft that it has rows for, if there is one.
    pub deepest: Option<usize>,
    /// Whether one pass computes the rows of all depths of a draft.
    pub at_once: bool,
    /// What else a user should know about how it is stored.
    pub note: Option<String>,
}

impl ModelInfo {
    /// Bytes of weights that a pass reads that needs this many distinct experts, summed over the
    /// sparse layers.
    pub fn bytes_with(&self, experts: f64) -> f64 {
        let more = self
            .experts
            .map_or(0.0, |own| (experts - (own.layers * own.used) as f64) * own.bytes as f64);
        self.bytes_per_token as f64 + more
    }

    /// Whether its distribution after a text depends on the text alone, wherever a draft begins.
    pub fn reads_text_alone(&self) -> bool {
        self.inputs == ModelInputs::Tokens && !self.at_once
    }

    /// The passes of a draft of `tokens` tokens.
    pub fn passes(&self, tokens: usize) -> usize {
        if self.at_once { tokens.min(1) } else { tokens }
    }
}

/// Evaluates a single sequence.
///
/// # Errors
/// As [`LanguageModel::evaluate`].
pub fn evaluate_one(model: &dyn LanguageModel, work: Work<'_>) -> Result<Evaluation, Error> {
    let mut results = model.evaluate(&mut [work])?;
    results.pop().ok_or_else(|| Error::engine("the engine returned no evaluation"))
}
