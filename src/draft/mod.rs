//! Drafters: WHO proposes.
//!
//! A drafter fills a [`Draft`] and nothing else. Whatever it does, the output
//! stays exact, because sampled tokens are drawn inside the draft from the law
//! that is recorded with them.

mod model;
mod none;
mod prompt_lookup;

pub use model::ModelDrafter;
pub use none::NoDraft;
pub use prompt_lookup::PromptLookup;

use crate::chance::Chance;
use crate::clock::Clock;
use crate::dist::Token;
use crate::length::DraftLength;
use crate::model::{LanguageModel, ModelError};
use crate::registry::Entry;
use crate::round::RoundEvent;
use crate::sampling::Sampler;
use crate::tree::Draft;

/// Proposes tokens, one draft per round.
pub trait Drafter<'a>: std::fmt::Debug {
    /// Takes in the prompt before the first round, outside the decode time.
    ///
    /// # Errors
    /// If the drafter's model fails.
    fn prefill(&mut self, prompt: &[Token], clock: &dyn Clock) -> Result<(), ModelError> {
        let _ = (prompt, clock);
        Ok(())
    }

    /// Proposes a draft for the round.
    ///
    /// # Errors
    /// If the drafter's model fails or returns logits that are no law.
    fn propose(&mut self, round: &mut Round<'_>) -> Result<Draft, ModelError>;

    /// Told after every round, with the target's rows, rejected ones included.
    fn observe(&mut self, event: &RoundEvent<'_>) {
        let _ = event;
    }

    /// Everything that future proposals after `context` depend on.
    ///
    /// # Errors
    /// If the drafter's session cannot be brought to `context`.
    fn state_key(&mut self, context: &[Token]) -> Result<Vec<u8>, ModelError>;

    /// An independent copy.
    ///
    /// # Errors
    /// If the drafter's session cannot be copied.
    fn fork(&self) -> Result<Box<dyn Drafter<'a> + 'a>, ModelError>;
}

/// What a drafter gets to see and use in one round.
#[derive(Debug)]
pub struct Round<'r> {
    /// Prompt and committed tokens.
    pub context: &'r [Token],
    /// Number of prompt tokens at the start of `context`.
    pub prompt_len: usize,
    /// Number of tokens in the vocabulary.
    pub vocab: usize,
    /// The largest depth that can still be committed.
    pub limit: usize,
    /// Asked before each further level.
    pub length: &'r mut dyn DraftLength,
    /// Where draft tokens are drawn from.
    pub chance: &'r mut dyn Chance,
    /// Told of every pass of the drafter's model.
    pub clock: &'r dyn Clock,
    /// Counts the passes of the drafter's model.
    pub forwards: usize,
}

impl Round<'_> {
    /// Whether to draft one level below what `draft` holds.
    pub fn go_on(&mut self, draft: &Draft) -> bool {
        draft.depth() < self.limit && self.length.go_on(draft)
    }
}

/// What a drafter is made from.
#[derive(Debug, Clone, Copy)]
pub struct DrafterParams<'a, 's> {
    /// The draft model, if the experiment names one.
    pub model: Option<&'a dyn LanguageModel>,
    /// How the draft model's logits become laws: the target's settings with the
    /// draft's own temperature.
    pub sampler: &'s Sampler,
    /// Longest n-gram looked up.
    pub prompt_lookup_max: usize,
    /// Shortest n-gram looked up.
    pub prompt_lookup_min: usize,
}

/// Makes a drafter.
pub type BuildDrafter =
    for<'a, 's> fn(&DrafterParams<'a, 's>) -> Result<Box<dyn Drafter<'a> + 'a>, ModelError>;

/// All drafters. `none` is plain autoregressive decoding in the same loop.
pub const DRAFTERS: &[Entry<BuildDrafter>] = &[none::ENTRY, model::ENTRY, prompt_lookup::ENTRY];
