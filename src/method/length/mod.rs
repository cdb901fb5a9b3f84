//! Draft length policies, which decide how many tokens to draft.
//!
//! A policy is consulted before every draft pass and may stop the draft. It sees the
//! tokens drafted so far but cannot drop one: dropping a token because of its value
//! conditions the draw and breaks exactness (measured total variation 0.26), so the
//! interface does not allow it.

mod adaedl;
mod by_batch;
mod confidence;
mod confidence_head;
mod entropy;
mod fixed;
mod heuristic;
mod optimal_stopping;
mod past;
mod shared_budget;
mod signal;
mod ucb;

pub use fixed::Fixed;
pub use past::{BatchView, PastAcceptance, SequencePast};

use crate::core::error::Error;
use crate::core::params::Params;
use crate::core::registry::Entry;
use crate::core::round::RoundEvent;
use crate::core::tree::Draft;

/// Decides whether a round drafts one level further.
pub trait DraftLength: std::fmt::Debug + BoxedLength {
    /// Called before a round with the past acceptance of all sequences that share it.
    fn begin(&mut self, batch: &BatchView<'_>) {
        let _ = batch;
    }

    /// The past acceptance of this sequence, for the policies of all sequences in its next round.
    fn past(&self) -> PastAcceptance {
        PastAcceptance::default()
    }

    /// The maximum depth of the draft in this round.
    fn max_depth(&self) -> usize;

    /// Whether another level is worth drafting; called only below the maximum depth.
    fn should_continue(&mut self, draft: &Draft) -> bool {
        let _ = draft;
        true
    }

    /// Whether a token is worth drafting that will be accepted with this probability if those before
    /// it are, as the drafter estimates before it draws the token.
    fn is_worth(&mut self, confidence: f64) -> bool {
        let _ = confidence;
        true
    }

    /// Whether the drafter must estimate that probability.
    fn needs_estimates(&self) -> bool {
        false
    }

    /// Whether the policy uses the drafter's beliefs about the tokens, not only their number. If
    /// not, a greedy drafter does not compute them.
    fn needs_confidence(&self) -> bool {
        true
    }

    /// Whether decisions depend on earlier rounds of the sequence, not only on the draft.
    fn learns(&self) -> bool {
        !self.state_key().is_empty()
    }

    /// Whether to draft one more level.
    fn go_deeper(&mut self, draft: &Draft) -> bool {
        draft.depth() < self.max_depth() && self.should_continue(draft)
    }

    /// Called after every round.
    fn observe(&mut self, event: &RoundEvent<'_>) {
        let _ = event;
    }

    /// All state that future decisions depend on, as bytes; empty for a policy that learns nothing.
    fn state_key(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// Copies a policy whose type is not known.
pub trait BoxedLength {
    /// An independent copy.
    fn boxed(&self) -> Box<dyn DraftLength>;
}

impl<L: DraftLength + Clone + 'static> BoxedLength for L {
    fn boxed(&self) -> Box<dyn DraftLength> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn DraftLength> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

/// What a length policy is built from.
#[derive(Debug, Clone, Copy)]
pub struct LengthParams<'s> {
    /// K: the number of tokens drafted per round, or their maximum, or the policy's
    /// initial value.
    pub num_speculative_tokens: usize,
    /// Settings of the policy.
    pub params: &'s Params,
}

/// The smallest divisor for times, in seconds, so that a clock that does not advance yields a large
/// rate instead of an infinite one.
const INSTANT: f64 = 1e-9;

/// A function that builds a policy, or reports what is wrong with its settings.
pub type BuildLength = fn(&LengthParams<'_>) -> Result<Box<dyn DraftLength>, Error>;

/// Whether a policy needs a drafter that estimates acceptance.
pub(crate) fn needs_estimates(policy: &Entry<BuildLength>) -> bool {
    let params = LengthParams { num_speculative_tokens: 1, params: &Params::default() };
    (policy.build)(&params).is_ok_and(|length| length.needs_estimates())
}

/// All draft length policies.
pub const LENGTHS: &[Entry<BuildLength>] = &[
    fixed::ENTRY,
    heuristic::ENTRY,
    confidence::ENTRY,
    confidence_head::ENTRY,
    entropy::ENTRY,
    adaedl::ENTRY,
    ucb::ENTRY,
    optimal_stopping::ENTRY,
    by_batch::ENTRY,
    shared_budget::ENTRY,
];
