//! Gumbel coupling: noise keyed by the position decides the target's token, so the drafter cannot
//! change it.
//!
//! At every position the target's token is `argmin_v min_j E[j, v] / p(v)` with k lists
//! j of exponential noise E, and a child is kept if it is that token. Drafts raced
//! against the same noise often agree with it: for k = 1 with a probability of at least
//! `(1 − TV) / (1 + TV)`. The output is a function of seed, prompt, target and k alone.
//! Its distribution is the target's, since the minimum of k independent exponentials is
//! again exponential.
//!
//! Cost: k·V logarithms per row.

use super::descent::{Decision, descend};
use super::{BuildVerifier, Verifier};
use crate::core::chance::Chance;
use crate::core::distribution::Dist;
use crate::core::params::Param;
use crate::core::registry::{Class, Entry};
use crate::core::round::Verdict;
use crate::core::tree::{Draft, DraftShape, Siblings};

const LISTS: Param = Param::count(
    "gumbel_lists",
    1,
    1..=64,
    "k: number of noise lists, and so of drafts that can be coupled to them",
);

pub(super) const ENTRY: Entry<BuildVerifier> = Entry {
    name: "gumbel",
    aliases: &["drafter_invariant", "gls"],
    params: &[LISTS],
    summary: "position-keyed noise decides each token; drafted tokens are kept while they match",
    paper: "Daliri et al. 2024, arXiv 2408.07978; k lists: Rowan et al. 2025, arXiv 2506.05632",
    build: BuildVerifier {
        class: Class::P,
        make: |params| Box::new(Gumbel { lists: params.count(&LISTS) }),
    },
};

/// Position-keyed exponential races.
#[derive(Debug, Clone, Copy)]
pub struct Gumbel {
    /// k: number of noise lists.
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
                Some(child) => Decision::Keep(child),
                None => Decision::Next { token, fallbacks: 0 },
            }
        })
    }
}
