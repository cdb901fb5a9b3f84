//! Lenient rejection sampling: the draft probability is scaled down by a factor l.
//!
//! Child x is accepted with probability `min(1, b(x) / (l·s(x)))`; after a rejection
//! the residual is `norm((b − l·s)⁺)`. No token becomes more than `1/l` times as
//! probable as under the target, but the output distribution is the target's only for
//! `l = 1`.
//!
//! Cost: the same as rejection sampling.

use super::descent::descend;
use super::rejection::choose;
use super::{BuildVerifier, Verifier};
use crate::core::chance::Chance;
use crate::core::distribution::Dist;
use crate::core::params::Param;
use crate::core::registry::{Class, Entry};
use crate::core::round::Verdict;
use crate::core::tree::{Draft, DraftShape};

const LENIENCE: Param =
    Param::number("lenience", 0.5, 0.01..=1.0, "factor on the draft's probability; 1 is exact");

pub(super) const ENTRY: Entry<BuildVerifier> = Entry {
    name: "lenient",
    aliases: &["lenience"],
    params: &[LENIENCE],
    summary: "rejection sampling with min(1, p/(l q)), l < 1",
    paper: "Leviathan et al. 2023, arXiv 2211.17192, App. A.5",
    build: BuildVerifier {
        class: Class::X,
        make: |params| Box::new(Lenient { lenience: params.number(&LENIENCE) }),
    },
};

/// Rejection sampling with lenience.
#[derive(Debug, Clone, Copy)]
pub struct Lenient {
    /// l, at most 1; 1 is exact.
    pub lenience: f64,
}

impl Verifier for Lenient {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.coupled
    }

    /// The accepted mass of each token, `min(q, p/l)`, plus the rejected mass times the
    /// residual.
    fn next_distribution(&self, p: &Dist, q: &Dist) -> Option<Dist> {
        let kept = p.zip(q, |p, q| q.min(p / self.lenience));
        let rejected = 1.0 - kept.iter().sum::<f64>();
        let rest = p.residual_of(q, self.lenience);
        let rest = rest.as_ref().unwrap_or(p);
        let dist = (0..).zip(kept).map(|(token, kept)| kept + rejected.max(0.0) * rest.p(token));
        Dist::from_weights(dist.collect()).ok()
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        descend(draft, targets, |fork| choose(fork, self.lenience, chance))
    }
}
