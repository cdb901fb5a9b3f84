//! Rejection sampling: on a chain the rule of Leviathan et al. and Chen et al., on a
//! tree recursive rejection sampling.
//!
//! At a node with target distribution `b`, each child `x` drawn from `s` is accepted
//! with probability `min(1, b(x) / s(x))`; after a rejection `b` becomes
//! `norm((b − s)⁺)` and the next sibling is tried. If no child is left, the next token
//! is drawn from `b`: as the correction after rejections, as the bonus token at a leaf.
//! A token drawn twice as a sibling is tried twice.
//!
//! Cost: O(V) per rejected child and one ratio per accepted one.

use std::borrow::Cow;

use super::descent::{Decision, Fork, accepts, descend};
use super::{BuildVerifier, Verifier};
use crate::core::chance::{Chance, Purpose};
use crate::core::distribution::Dist;
use crate::core::registry::{Class, Entry};
use crate::core::round::Verdict;
use crate::core::tree::{Draft, DraftShape};

pub(super) const ENTRY: Entry<BuildVerifier> = Entry {
    name: "rejection",
    aliases: &["standard", "speculative_sampling", "rrs"],
    params: &[],
    summary: "accepts with probability min(1, p/q), else draws from the residual; recursive over \
              siblings",
    paper: "Leviathan et al. 2023, arXiv 2211.17192, Alg. 1; Chen et al. 2023, arXiv 2302.01318; \
            trees: Miao et al. 2023, arXiv 2305.09781",
    build: BuildVerifier { class: Class::D, make: |_| Box::new(Rejection) },
};

/// Recursive rejection sampling.
#[derive(Debug, Clone, Copy)]
pub struct Rejection;

impl Verifier for Rejection {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.coupled
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        descend(draft, targets, |fork| choose(fork, 1.0, chance))
    }
}

/// Applies the rule at one node, with every draft distribution multiplied by `scale`; 1 is exact.
pub(super) fn choose(fork: &Fork<'_>, scale: f64, chance: &mut dyn Chance) -> Decision {
    let mut dist = Cow::Borrowed(fork.p);
    let (mut purpose, mut fallbacks) = (Purpose::Bonus, 0);
    for child in fork.children() {
        let node = fork.draft.node(child);
        // A drawn token has q > 0.
        if accepts(child, dist.p(node.token) / (scale * node.q(node.token)), chance) {
            return Decision::Keep(child);
        }
        purpose = Purpose::Residual;
        match dist.residual_of(&node.distribution(fork.draft.vocab()), scale) {
            Some(rest) => dist = Cow::Owned(rest),
            None => fallbacks += 1,
        }
    }
    Decision::Next { token: fork.draw(purpose, &dist, chance), fallbacks }
}
