//! Lenient rejection sampling: the draft's probability counts only in part.
//!
//! Child x is accepted with probability `min(1, b(x) / (l·s(x)))`, and the rest
//! is `norm((b − l·s)⁺)`. No token becomes more than `1/l` times as probable as
//! it should be, but the distribution is not the target's unless l = 1.
//!
//! Cost: as rejection sampling.

use super::descent::descend;
use super::rejection::choose_scaled;
use super::{BuildVerifier, Verifier};
use crate::chance::Chance;
use crate::distribution::Dist;
use crate::params::Param;
use crate::registry::{Class, Entry};
use crate::round::Verdict;
use crate::tree::{Draft, DraftShape};

const LENIENCE: Param =
    Param::number("lenience", 0.5, 0.01..=1.0, "factor on the draft's probability; 1 is exact");

/// Its line in the registry.
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
    /// l, from 1 (exact) downwards.
    pub lenience: f64,
}

impl Verifier for Lenient {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.coupled
    }

    /// What is accepted of each token, `min(q, p/l)`, and the rest from the
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
        descend(draft, targets, |fork| choose_scaled(fork, self.lenience, chance))
    }
}
