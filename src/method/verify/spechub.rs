//! SpecHub: two drafts that share the most probable token.
//!
//! Pairs of siblings are (x, a) or (a, x) with the hub `a = argmax q`. Their
//! probabilities are `Q(x, a) = q(x)` and `Q(a, x) = q(a)·q(x) / (1 − q(a))`. Each pair
//! first transports mass to its x, `m₁ = min(p, Q(x, a))` and
//! `m₂ = min(p − m₁, Q(a, x))`. The remaining mass Λ of all pairs goes to the hub,
//! `m_a = min(p(a), Λ)`. The correction is drawn from the part of p that is not
//! covered.
//!
//! Cost: several passes over the vocabulary, O(V).

use super::descent::{Decision, Fork, accepts, descend};
use super::rejection;
use super::{BuildVerifier, Verifier};
use crate::core::chance::Chance;
use crate::core::distribution::{Dist, Token};
use crate::core::registry::{Class, Entry};
use crate::core::round::Verdict;
use crate::core::tree::{Draft, DraftShape, NodeId, Siblings};

pub(super) const ENTRY: Entry<BuildVerifier> = Entry {
    name: "spechub",
    aliases: &[],
    params: &[],
    summary: "two siblings, one of them the most probable token, by an explicit transport plan",
    paper: "Sun et al. 2024, SpecHub, arXiv 2411.05289, Alg. 1",
    build: BuildVerifier { class: Class::D, make: |_| Box::new(SpecHub) },
};

/// Verification by the transport plan of SpecHub; rejection sampling at nodes that do
/// not have exactly two children.
#[derive(Debug, Clone, Copy)]
pub struct SpecHub;

impl Verifier for SpecHub {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.coupled && shape.only(&[Siblings::Hub])
    }

    fn siblings(&self) -> Siblings {
        Siblings::Hub
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        descend(draft, targets, |fork| {
            let children = fork.children().collect::<Vec<_>>();
            match children[..] {
                [first, second] => choose(fork, [first, second], chance),
                _ => rejection::choose(fork, 1.0, chance),
            }
        })
    }
}

fn choose(fork: &Fork<'_>, [first, second]: [NodeId; 2], chance: &mut dyn Chance) -> Decision {
    let node = |id| fork.draft.node(id);
    let q = node(first).distribution(fork.draft.vocab());
    let plan = HubPlan::new(fork.p, &q);
    let hub_first = node(first).token == plan.hub;
    let (other, hub) = if hub_first { (second, first) } else { (first, second) };
    let token = node(other).token;
    let (p, q_of) = (fork.p.p(token), q.p(token));
    let [one, two] = plan.moved(p, q_of);
    let to_other = if hub_first { two / (plan.odds * q_of) } else { one / q_of };
    if accepts(other, to_other, chance) {
        return Decision::Keep(other);
    }
    if accepts(hub, plan.to_hub / plan.left, chance) {
        return Decision::Keep(hub);
    }
    let mut rest = fork.p.zip(&q, |p, q| plan.moved(p, q).into_iter().fold(p, |p, m| p - m));
    rest[plan.hub as usize] = fork.p.p(plan.hub) - plan.to_hub;
    for mass in &mut rest {
        *mass = mass.max(0.0);
    }
    fork.correct(rest, chance)
}

/// The transport plan: how much of p the pairs cover.
#[derive(Debug, Clone, Copy)]
struct HubPlan {
    hub: Token,
    /// `Q(a, x) / q(x)`.
    odds: f64,
    /// Λ: mass of all pairs that did not go to their x.
    left: f64,
    /// m_a: the part of Λ that goes to the hub.
    to_hub: f64,
}

impl HubPlan {
    fn new(p: &Dist, q: &Dist) -> Self {
        let hub = q.argmax();
        let others = || q.support().filter(|&(token, _)| token != hub);
        // Summed, since 1 − q(a) would lose all digits where q(a) is close to 1.
        let odds = q.p(hub) / others().map(|(_, q)| q).sum::<f64>();
        let mut plan = Self { hub, odds, left: 0.0, to_hub: 0.0 };
        plan.left = others()
            .map(|(token, q)| {
                let [one, two] = plan.moved(p.p(token), q);
                (q - one) + (odds * q - two)
            })
            .sum();
        plan.to_hub = p.p(hub).min(plan.left);
        plan
    }

    /// m₁ and m₂ of a token other than the hub.
    fn moved(&self, p: f64, q: f64) -> [f64; 2] {
        let one = p.min(q);
        [one, (p - one).min(self.odds * q)]
    }
}
