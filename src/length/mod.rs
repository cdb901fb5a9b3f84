//! Draft length policies: HOW FAR ahead to draft.
//!
//! A policy is asked before every draft pass and may stop. It sees the tokens
//! drafted so far, but it cannot drop one: dropping a token after looking at it
//! conditions the draw and breaks exactness (measured total variation 0.26),
//! so the interface has no way to do it.

mod adaedl;
mod confidence;
mod entropy;
mod fixed;
mod heuristic;
mod optimal_stopping;
mod signal;
mod ucb;

pub use fixed::Fixed;

use crate::params::Params;
use crate::registry::Entry;
use crate::round::RoundEvent;
use crate::tree::Draft;

/// Decides whether a round drafts one level further.
pub trait DraftLength: std::fmt::Debug {
    /// The largest depth that it may ask for in this round.
    fn max_depth(&self) -> usize;

    /// Whether a level below what the draft holds is worth drafting, where it is
    /// not too deep.
    fn should_continue(&mut self, draft: &Draft) -> bool {
        let _ = draft;
        true
    }

    /// Whether it looks at what the drafter believes of the tokens, and not only
    /// at their number: a greedy drafter does not work that out for nothing.
    fn needs_confidence(&self) -> bool {
        true
    }

    /// Whether to draft one level below what the draft holds already.
    fn go_deeper(&mut self, draft: &Draft) -> bool {
        draft.depth() < self.max_depth() && self.should_continue(draft)
    }

    /// Told after every round.
    fn observe(&mut self, event: &RoundEvent<'_>) {
        let _ = event;
    }

    /// Everything that future decisions depend on.
    fn state_key(&self) -> Vec<u8>;

    /// An independent copy.
    fn fork(&self) -> Box<dyn DraftLength>;
}

/// What a length policy is made from.
#[derive(Debug, Clone, Copy)]
pub struct LengthParams<'s> {
    /// K: the number of tokens drafted per round, the most of them, or what a
    /// policy begins with.
    pub num_speculative_tokens: usize,
    /// Settings of the policy.
    pub params: &'s Params,
}

/// The shortest time, in seconds, that a policy divides by: a clock that stands
/// still yields a large rate and not an infinite one.
const INSTANT: f64 = 1e-9;

/// Makes a policy.
pub type BuildLength = fn(&LengthParams<'_>) -> Box<dyn DraftLength>;

/// All draft length policies.
pub const LENGTHS: &[Entry<BuildLength>] = &[
    fixed::ENTRY,
    heuristic::ENTRY,
    confidence::ENTRY,
    entropy::ENTRY,
    adaedl::ENTRY,
    ucb::ENTRY,
    optimal_stopping::ENTRY,
];
