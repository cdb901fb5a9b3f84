//! Typical acceptance: a drafted token is kept if its target probability is high
//! enough, given the entropy of the target's distribution.
//!
//! Child x is kept if `p(x) > min(ε, δ·e^{−H(p)})`, without a random decision; after
//! the last kept token the next one is drawn from p. If several siblings qualify, the
//! first proposed one is kept. The output does *not* have the target's distribution.
//!
//! Cost: O(V) per node, for the entropy.

use super::descent::{Decision, Fork, descend};
use super::{BuildVerifier, Verifier};
use crate::core::chance::Chance;
use crate::core::distribution::Dist;
use crate::core::params::Param;
use crate::core::registry::{Class, Entry};
use crate::core::round::Verdict;
use crate::core::tree::{Draft, DraftShape};

const EPSILON: Param = Param::number(
    "typical_epsilon",
    0.3,
    0.0..=1.0,
    "a token with a larger target probability is always kept",
);
const DELTA: Param =
    Param::number("typical_delta", 0.6, 0.0..=1.0, "factor on exp(-entropy of the target)");

pub(super) const ENTRY: Entry<BuildVerifier> = Entry {
    name: "typical",
    aliases: &["typical_acceptance"],
    params: &[EPSILON, DELTA],
    summary: "keeps tokens whose target probability is high enough, given the target's entropy",
    paper: "Cai et al. 2024, Medusa, arXiv 2401.10774, Sec. 2.3.1",
    build: BuildVerifier {
        class: Class::X,
        make: |params| {
            Box::new(Typical { epsilon: params.number(&EPSILON), delta: params.number(&DELTA) })
        },
    },
};

/// Typical acceptance.
#[derive(Debug, Clone, Copy)]
pub struct Typical {
    /// ε: a token with a larger target probability is always kept.
    pub epsilon: f64,
    /// δ: factor on e^{−H} in the threshold.
    pub delta: f64,
}

impl Verifier for Typical {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.coupled
    }

    /// Drafted tokens above the threshold keep their probability q; the rest is drawn
    /// from p.
    fn next_distribution(&self, p: &Dist, q: &Dist) -> Option<Dist> {
        let threshold = self.threshold(p);
        let kept = p.zip(q, |p, q| if p > threshold { q } else { 0.0 });
        let rejected = 1.0 - kept.iter().sum::<f64>();
        let dist = (0..).zip(kept).map(|(token, kept)| kept + rejected.max(0.0) * p.p(token));
        Dist::from_weights(dist.collect()).ok()
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        descend(draft, targets, |fork| self.choose(fork, chance))
    }
}

impl Typical {
    /// The probability that a drafted token must exceed to be kept.
    fn threshold(&self, p: &Dist) -> f64 {
        self.epsilon.min(self.delta * (-p.entropy()).exp())
    }

    fn choose(&self, fork: &Fork<'_>, chance: &mut dyn Chance) -> Decision {
        let threshold = self.threshold(fork.p);
        let typical = |&child: &usize| fork.p.p(fork.draft.node(child).token) > threshold;
        match fork.children().find(typical) {
            Some(child) => Decision::Keep(child),
            None => fork.bonus(chance),
        }
    }
}
