//! Greedy multi-draft verification: the children are the k − 1 most probable tokens and
//! one token drawn from the rest.
//!
//! The drawn child is tried by rejection sampling against its own draft distribution
//! q', which is zero on the listed children. If it is rejected, the correction is drawn
//! from `norm((p − q')⁺)`; a correction that equals a listed child keeps that child,
//! and verification continues below it. The acceptance probability is
//! `p(S) + Σ min(p, q')` with S the listed children, the maximum for such a draft.
//!
//! Cost: the same as rejection sampling of one token.

use super::descent::{Decision, Fork, accepts, descend};
use super::{BuildVerifier, Verifier};
use crate::core::chance::{Chance, Purpose};
use crate::core::distribution::Dist;
use crate::core::registry::{Class, Entry};
use crate::core::round::Verdict;
use crate::core::tree::{Draft, DraftShape, Origin, Siblings};

pub(super) const ENTRY: Entry<BuildVerifier> = Entry {
    name: "greedy_multi",
    aliases: &["greedy_draft_sampling"],
    params: &[],
    summary: "rejection sampling of the drawn child; a correction equal to a listed child keeps it",
    paper: "Hu et al. 2025, arXiv 2502.18779, Sec. 5",
    build: BuildVerifier { class: Class::D, make: |_| Box::new(GreedyMulti) },
};

/// Verification of listed children and one drawn child.
#[derive(Debug, Clone, Copy)]
pub struct GreedyMulti;

impl Verifier for GreedyMulti {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.coupled && shape.only(&[Siblings::LastSampled, Siblings::TopK])
    }

    fn siblings(&self) -> Siblings {
        Siblings::LastSampled
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        descend(draft, targets, |fork| choose(fork, chance))
    }
}

fn choose(fork: &Fork<'_>, chance: &mut dyn Chance) -> Decision {
    let draft = fork.draft;
    if fork.children().next().is_none() {
        return fork.bonus(chance);
    }
    let drawn = fork.children().find_map(|child| match &draft.node(child).origin {
        Origin::Sampled(dist) => Some((child, dist)),
        _ => None,
    });
    let correction = match drawn {
        Some((child, dist)) => {
            let token = draft.node(child).token;
            if accepts(child, fork.p.p(token) / dist.p(token), chance) {
                return Decision::Keep(child);
            }
            fork.correct(fork.p.zip(dist, |p, q| (p - q).max(0.0)), chance)
        }
        None => {
            Decision::Next { token: fork.draw(Purpose::Residual, fork.p, chance), fallbacks: 0 }
        }
    };
    let Decision::Next { token, .. } = correction else { return correction };
    let listed = |&child: &usize| {
        draft.node(child).token == token && drawn.is_none_or(|(drawn, _)| drawn != child)
    };
    fork.children().find(listed).map_or(correction, Decision::Keep)
}
