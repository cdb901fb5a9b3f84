//! Verifiers: WHAT is kept of a draft.
//!
//! A verifier is a pure function of the draft, the target's laws and chance:
//! no model, no config, no clock. That is what makes it provable by
//! enumeration.

mod rejection;
mod token_match;

pub use rejection::Rejection;
pub use token_match::TokenMatch;

use crate::chance::Chance;
use crate::dist::Dist;
use crate::registry::Entry;
use crate::round::Verdict;
use crate::tree::{Draft, DraftShape};

/// Decides which drafted tokens are kept and which token follows them.
pub trait Verifier: std::fmt::Debug + Sync {
    /// Whether the rule keeps its guarantee for drafts of this shape.
    fn supports(&self, shape: &DraftShape) -> bool;

    /// Verifies `draft` against the target's processed laws: `targets[0]` after
    /// the context, `targets[i]` after node `i − 1`.
    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict;
}

/// All verifiers.
pub const VERIFIERS: &[Entry<&'static dyn Verifier>] = &[rejection::ENTRY, token_match::ENTRY];
