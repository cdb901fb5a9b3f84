//! Verifiers, which decide which drafted tokens are kept.
//!
//! A verifier is a pure function of the draft, the target's distributions and chance.
//! It uses no model, no configuration and no clock, so its exactness can be checked by
//! enumerating all outcomes.

mod ceiling;
mod descent;
mod greedy_multi;
mod gumbel;
mod k_seq;
mod lenient;
mod rejection;
mod rule;
mod spechub;
mod token_match;
mod traversal;
mod typical;

pub use ceiling::{ceiling, ceilings};
pub use greedy_multi::GreedyMulti;
pub use gumbel::Gumbel;
pub use k_seq::KSeq;
pub use lenient::Lenient;
pub use rejection::Rejection;
pub use rule::Rule;
pub use spechub::SpecHub;
pub use token_match::TokenMatch;
pub use traversal::Traversal;
pub use typical::Typical;

use crate::core::chance::Chance;
use crate::core::distribution::Dist;
use crate::core::params::Params;
use crate::core::registry::{Class, Entry};
use crate::core::round::Verdict;
use crate::core::tree::{Draft, DraftShape, Siblings};

/// Decides which drafted tokens are kept and which token follows them.
pub trait Verifier: std::fmt::Debug + Send + Sync {
    /// Whether the rule keeps its guarantee for drafts of this shape.
    fn supports(&self, shape: &DraftShape) -> bool;

    /// The number of lists of position-keyed noise against which drafts should be
    /// raced; `None` for verifiers that need independently drawn drafts.
    fn coupling(&self) -> Option<usize> {
        None
    }

    /// The kind of siblings that suits this verifier best.
    fn siblings(&self) -> Siblings {
        Siblings::Distinct
    }

    /// The marginal distribution of the next token when one child, drawn from `q`, is
    /// verified against `p`, over all possible draws and acceptance decisions.
    /// Approximate verifiers return it so that its distance from `p` can be measured.
    /// For exact verifiers it equals `p`, and they return `None`.
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

/// How to build a verifier.
#[derive(Debug, Clone, Copy)]
pub struct BuildVerifier {
    /// The guarantee on the output.
    pub class: Class,
    /// Builds the verifier from its settings.
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
