//! K-SEQ: the same acceptance rule for each of k independent siblings.
//!
//! The siblings are tried in order, and each is accepted with probability
//! `min(1, p(x) / (ρ·q(x)))`. With `b(ρ) = Σ min(q, p/ρ)`, some sibling is accepted with
//! probability `a = 1 − (1 − b)^k`, and the residual is proportional to `p − min(q, p/ρ)·a/b`,
//! which is non-negative as long as `a ≤ ρ·b`. The smallest such ρ in [1, k] accepts most; it is
//! found by bisection. At this ρ, `a = ρ·b`, so the residual is `(p − ρ·q)⁺`.
//!
//! Cost: O(V), plus 60 passes over the tokens with 1 < p/q < k, the only ones whose
//! terms change during the bisection.

use super::descent::{Decision, Fork, accepts, descend};
use super::{BuildVerifier, Verifier};
use crate::core::chance::Chance;
use crate::core::distribution::Dist;
use crate::core::registry::{Class, Entry};
use crate::core::round::Verdict;
use crate::core::tree::{Draft, DraftShape, Siblings};

pub(super) const ENTRY: Entry<BuildVerifier> = Entry {
    name: "k_seq",
    aliases: &["spectr"],
    params: &[],
    summary: "one acceptance rule for k independent siblings, with the largest exact acceptance",
    paper: "Sun et al. 2023, SpecTr, arXiv 2310.15141, Alg. 3",
    build: BuildVerifier { class: Class::D, make: |_| Box::new(KSeq) },
};

/// Halvings of [1, k] after which a further one would not change the f64 result.
const HALVINGS: usize = 60;

/// Verification by the K-SEQ rule of SpecTr.
#[derive(Debug, Clone, Copy)]
pub struct KSeq;

impl Verifier for KSeq {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.coupled && shape.only(&[Siblings::Independent])
    }

    fn siblings(&self) -> Siblings {
        Siblings::Independent
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        descend(draft, targets, |fork| choose(fork, chance))
    }
}

fn choose(fork: &Fork<'_>, chance: &mut dyn Chance) -> Decision {
    let Some(first) = fork.children().next() else { return fork.bonus(chance) };
    let k = fork.children().count();
    let q = fork.draft.node(first).distribution(fork.draft.vocab());
    let rho = rho(fork.p, &q, k);
    let mut children = fork.children();
    if let Some(kept) = children.find(|&child| {
        let token = fork.draft.node(child).token;
        accepts(child, fork.p.p(token) / (rho * q.p(token)), chance)
    }) {
        return Decision::Keep(kept);
    }
    fork.correct(fork.p.zip(&q, |p, q| (p - rho * q).max(0.0)), chance)
}

/// ρ for k drafts drawn from one distribution.
fn rho(p: &Dist, q: &Dist, k: usize) -> f64 {
    let (mut below, mut above, mut between) = (0.0, 0.0, Vec::new());
    for (token, q) in q.support() {
        match p.p(token) {
            // In these two cases min(q, p/ρ) is p/ρ, or q, for every ρ in [1, k].
            p if p <= q => below += p,
            p if p >= k as f64 * q => above += q,
            p => between.push((p, q)),
        }
    }
    let kept =
        |rho: f64| below / rho + above + between.iter().map(|(p, q)| q.min(p / rho)).sum::<f64>();
    // The result is the upper end of the bracket, where the residual is never negative.
    let (mut low, mut rho) = (1.0, k as f64);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + rho);
        let b = kept(middle);
        if 1.0 - (1.0 - b).powi(k as i32) <= middle * b { rho = middle } else { low = middle }
    }
    rho
}
