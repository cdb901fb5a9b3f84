//! Verifiers: WHAT is kept of a draft.
//!
//! A verifier is a pure function of the draft, the target's distributions and chance:
//! no model, no config, no clock. That is what makes it provable by
//! enumeration.

mod ceiling;
mod descent;
mod greedy_multi;
mod gumbel;
mod k_seq;
mod lenient;
mod rejection;
mod spechub;
mod token_match;
mod traversal;
mod typical;

pub use ceiling::ceiling;
pub use greedy_multi::GreedyMulti;
pub use gumbel::Gumbel;
pub use k_seq::KSeq;
pub use lenient::Lenient;
pub use rejection::Rejection;
pub use spechub::SpecHub;
pub use token_match::TokenMatch;
pub use traversal::Traversal;
pub use typical::Typical;

use crate::chance::Chance;
use crate::distribution::Dist;
use crate::params::Params;
use crate::registry::{Class, Entry};
use crate::round::Verdict;
use crate::tree::{Draft, DraftShape, Siblings};

/// Decides which drafted tokens are kept and which token follows them.
pub trait Verifier: std::fmt::Debug + Send + Sync {
    /// Whether the rule keeps its guarantee for drafts of this shape.
    fn supports(&self, shape: &DraftShape) -> bool;

    /// The number of lists of position-keyed noise that drafts should be raced
    /// against; none for rules that want draws of their own.
    fn coupling(&self) -> Option<usize> {
        None
    }

    /// How siblings are best chosen for this rule.
    fn siblings(&self) -> Siblings {
        Siblings::Distinct
    }

    /// The distribution of the next token where one child, drawn from `q`, is verified
    /// against `p`: over all that could be drawn and accepted. Approximate rules
    /// state it, so that their distance from `p` can be measured; for exact ones
    /// it is `p`, and they need not.
    fn next_distribution(&self, p: &Dist, q: &Dist) -> Option<Dist> {
        let _ = (p, q);
        None
    }

    /// Verifies `draft` against the target's processed distributions: `targets[0]` after
    /// the context, `targets[i]` after node `i − 1`.
    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict;
}

impl<V: Verifier + ?Sized> Verifier for &V {
    fn supports(&self, shape: &DraftShape) -> bool {
        (**self).supports(shape)
    }

    fn coupling(&self) -> Option<usize> {
        (**self).coupling()
    }

    fn siblings(&self) -> Siblings {
        (**self).siblings()
    }

    fn next_distribution(&self, p: &Dist, q: &Dist) -> Option<Dist> {
        (**self).next_distribution(p, q)
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        (**self).verify(draft, targets, chance)
    }
}

/// How a verifier is made.
#[derive(Debug, Clone, Copy)]
pub struct BuildVerifier {
    /// What it guarantees of the output.
    pub class: Class,
    /// Makes it from its settings.
    pub make: fn(&Params) -> Box<dyn Verifier>,
}

/// All verifiers.
pub const VERIFIERS: &[Entry<BuildVerifier>] = &[
    rejection::ENTRY,
    token_match::ENTRY,
    traversal::ENTRY,
    k_seq::ENTRY,
    spechub::ENTRY,
    greedy_multi::ENTRY,
    gumbel::ENTRY,
    typical::ENTRY,
    lenient::ENTRY,
];
