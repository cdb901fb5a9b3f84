//! Gumbel coupling: the target's own token is decided by noise that belongs to
//! the position, so the drafter cannot change it.
//!
//! At every position the target's token is `argmin_v min_j E[j, v] / p(v)` with
//! exponential noise E of k lists; a child is kept if it is that token. Drafts
//! raced against the same noise agree often: at least `(1 − TV) / (1 + TV)` of
//! the time for k = 1. The output is a function of seed, prompt, target and k
//! alone, and its distribution is the target's, since the least of k exponentials is one.
//!
//! Cost: k·V logarithms per row.

use super::descent::{Choice, descend};
use super::{BuildVerifier, Verifier};
use crate::chance::Chance;
use crate::distribution::Dist;
use crate::params::Param;
use crate::registry::{Class, Entry};
use crate::round::Verdict;
use crate::tree::{Draft, DraftShape, Siblings};

const LISTS: Param = Param::count(
    "gumbel_lists",
    1,
    1..=64,
    "k: lists of noise; as many drafts can be coupled to them",
);

/// Its line in the registry.
pub(super) const ENTRY: Entry<BuildVerifier> = Entry {
    name: "gumbel",
    aliases: &["drafter_invariant", "gls"],
    params: &[LISTS],
    summary: "the token is decided by noise of its position; drafts are kept while they match",
    paper: "Daliri et al. 2024, arXiv 2408.07978; k lists: Rowan et al. 2025, arXiv 2506.05632",
    build: BuildVerifier {
        class: Class::P,
        make: |params| Box::new(Gumbel { lists: params.count(&LISTS) }),
    },
};

/// Position-keyed exponential races.
#[derive(Debug, Clone, Copy)]
pub struct Gumbel {
    /// k.
    pub lists: usize,
}

impl Verifier for Gumbel {
    fn supports(&self, _shape: &DraftShape) -> bool {
        true
    }

    fn coupling(&self) -> Option<usize> {
        Some(self.lists)
    }

    fn siblings(&self) -> Siblings {
        Siblings::Independent
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        descend(draft, targets, |fork| {
            let token = chance.race(fork.position(), 0..self.lists, fork.p);
            match fork.children().find(|&child| draft.node(child).token == token) {
                Some(child) => Choice::Keep(child),
                None => Choice::Next { token, fallbacks: 0 },
            }
        })
    }
}
