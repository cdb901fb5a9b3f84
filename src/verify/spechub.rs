//! SpecHub: two drafts that share the most probable token.
//!
//! Pairs are (x, a) or (a, x) with `a = argmax q`, drawn with
//! `Q(x, a) = q(x)` and `Q(a, x) = q(a)·q(x) / (1 − q(a))`. Each pair carries
//! mass to its x first, `m₁ = min(p, Q(x, a))` and `m₂ = min(p − m₁, Q(a, x))`;
//! what is left of all pairs goes to a, `m_a = min(p(a), Λ)`. The correction is
//! drawn from what p still lacks.
//!
//! Cost: O(V), more than once.

use super::descent::{Choice, Fork, accepts, descend};
use super::rejection;
use super::{BuildVerifier, Verifier};
use crate::chance::Chance;
use crate::distribution::{Dist, Token};
use crate::registry::{Class, Entry};
use crate::round::Verdict;
use crate::tree::{Draft, DraftShape, NodeId, Siblings};

/// Its line in the registry.
pub(super) const ENTRY: Entry<BuildVerifier> = Entry {
    name: "spechub",
    aliases: &[],
    params: &[],
    summary: "two drafts, one of them the most probable token, by an explicit transport plan",
    paper: "Sun et al. 2024, SpecHub, arXiv 2411.05289, Alg. 1",
    build: BuildVerifier { class: Class::D, make: |_| Box::new(SpecHub) },
};

/// The transport plan of SpecHub; rejection sampling where there is one child.
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
                _ => rejection::choose(fork, chance),
            }
        })
    }
}

fn choose(fork: &Fork<'_>, [first, second]: [NodeId; 2], chance: &mut dyn Chance) -> Choice {
    let node = |id| fork.draft.node(id);
    let q = node(first).distribution(fork.draft.vocab());
    let plan = Plan::new(fork.p, &q);
    let hub_first = node(first).token == plan.hub;
    let (other, hub) = if hub_first { (second, first) } else { (first, second) };
    let token = node(other).token;
    let (p, q_of) = (fork.p.p(token), q.p(token));
    let [one, two] = plan.moved(p, q_of);
    let to_other = if hub_first { two / (plan.odds * q_of) } else { one / q_of };
    if accepts(other, to_other, chance) {
        return Choice::Keep(other);
    }
    if accepts(hub, plan.to_hub / plan.left, chance) {
        return Choice::Keep(hub);
    }
    let mut rest = fork.p.zip(&q, |p, q| plan.moved(p, q).into_iter().fold(p, |p, m| p - m));
    rest[plan.hub as usize] = fork.p.p(plan.hub) - plan.to_hub;
    rest.iter_mut().for_each(|mass| *mass = mass.max(0.0));
    fork.correct(rest, chance)
}

/// How much of p the pairs cover.
#[derive(Debug, Clone, Copy)]
struct Plan {
    hub: Token,
    /// `Q(a, x) / q(x)`.
    odds: f64,
    /// Λ: mass of the pairs that their x has not taken.
    left: f64,
    /// m_a: the part of it that the hub takes.
    to_hub: f64,
}

impl Plan {
    fn new(p: &Dist, q: &Dist) -> Self {
        let hub = q.argmax();
        let others = || q.support().filter(|&(token, _)| token != hub);
        // Not 1 − q(a), which loses all digits where the draft is sure.
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
