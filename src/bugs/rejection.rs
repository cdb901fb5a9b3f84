//! Rejection sampling with replaceable parts, from which wrong verifiers differ in one.

use crate::core::chance::{Chance, Purpose, Site};
use crate::core::distribution::{Dist, Token};
use crate::core::round::Verdict;
use crate::core::tree::{Draft, DraftShape, Node, NodeId};
use crate::method::verify::Verifier;

/// Recursive rejection sampling with replaceable parts. As [`PLAIN_LOOP`] it is correct, so a
/// mutant is refuted because of its one change.
#[derive(Debug)]
pub(super) struct Loop {
    /// Probability of accepting a node against the distribution `b`.
    pub(super) accept: fn(&Dist, &Node) -> f64,
    /// The distribution after a rejected node; `None` leaves the one before.
    pub(super) rest: fn(&RejectedNode<'_>) -> Option<Dist>,
    /// The distribution of the bonus token, from the target's and the last node's
    /// distribution.
    pub(super) bonus: fn(&Dist, &Dist) -> Dist,
    /// Whether later siblings are tried against the updated distribution.
    pub(super) updates: bool,
    /// Whether a sibling whose token was already rejected is skipped.
    pub(super) skips_twins: bool,
    /// Whether a bonus token is drawn after a fully accepted draft.
    pub(super) draws_bonus: bool,
}

/// A rejected node.
#[derive(Debug)]
pub(super) struct RejectedNode<'a> {
    /// The distribution against which it was tried.
    pub(super) b: &'a Dist,
    /// Its own distribution.
    pub(super) q: &'a Dist,
    /// The target's distribution before it.
    pub(super) p: &'a Dist,
    pub(super) id: NodeId,
    pub(super) draft: &'a Draft,
    pub(super) targets: &'a [Dist],
}

impl RejectedNode<'_> {
    /// A distribution with these weights by p and q of each token.
    pub(super) fn weighted(&self, weight: impl Fn(f64, f64) -> f64) -> Option<Dist> {
        Dist::from_weights(self.p.zip(self.q, weight)).ok()
    }

    /// (p - q)+ with the mass missing to 1 at a token.
    pub(super) fn not_normalised(&self, token: usize) -> Option<Dist> {
        let mut weights = self.p.zip(self.q, |p, q| (p - q).max(0.0));
        weights[token] += (1.0 - weights.iter().sum::<f64>()).max(0.0);
        Dist::from_weights(weights).ok()
    }
}

pub(super) const PLAIN_LOOP: Loop = Loop {
    accept: |b, node| {
        if b.p(node.token) > 0.0 { b.p(node.token) / node.q(node.token) } else { 0.0 }
    },
    rest: |at| at.b.residual(at.q),
    bonus: |p, _| p.clone(),
    updates: true,
    skips_twins: false,
    draws_bonus: true,
};

impl Verifier for Loop {
    fn supports(&self, _shape: &DraftShape) -> bool {
        true
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        let mut verdict = Verdict::default();
        loop {
            let at = verdict.path.last().copied();
            let p = &targets[verdict.last_row().number()];
            let (mut b, mut tried, mut accepted) = (p.clone(), Vec::<Token>::new(), None);
            for child in draft.children(at) {
                let node = draft.node(child);
                if self.skips_twins && tried.contains(&node.token) {
                    continue;
                }
                tried.push(node.token);
                let against = if self.updates { &b } else { p };
                let site = Site { purpose: Purpose::Accept, node: child };
                if chance.bernoulli(site, (self.accept)(against, node)) {
                    accepted = Some(child);
                    break;
                }
                let q = node.distribution(draft.vocab());
                let at = RejectedNode { b: against, q: &q, p, id: child, draft, targets };
                b = (self.rest)(&at).unwrap_or_else(|| against.clone());
            }
            if let Some(child) = accepted {
                verdict.path.push(child);
                continue;
            }
            let leaf = at.filter(|_| tried.is_empty()).map(|id| draft.node(id));
            let (purpose, dist) = match leaf {
                Some(last) => (Purpose::Bonus, (self.bonus)(p, &last.distribution(draft.vocab()))),
                None => (Purpose::Residual, b),
            };
            if let Some(last) = leaf.filter(|_| !self.draws_bonus) {
                verdict.path.pop();
                verdict.next = last.token;
                return verdict;
            }
            verdict.next =
                chance.categorical(Site { purpose, node: verdict.last_row().number() }, &dist);
            return verdict;
        }
    }
}

/// Token matching that draws again after a mismatch.
#[derive(Debug)]
pub(super) struct Redraws;

impl Verifier for Redraws {
    fn supports(&self, _shape: &DraftShape) -> bool {
        true
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        let mut verdict = Verdict::default();
        loop {
            let row = verdict.last_row().number();
            let dist = &targets[row];
            let token = chance.categorical(Site { purpose: Purpose::Target, node: row }, dist);
            let at = verdict.path.last().copied();
            let hit = draft.children(at).find(|&child| draft.node(child).token == token);
            match (hit, draft.children(at).next()) {
                (Some(child), _) => verdict.path.push(child),
                (None, None) => {
                    verdict.next = token;
                    return verdict;
                }
                (None, Some(_)) => {
                    let site = Site { purpose: Purpose::Residual, node: row };
                    verdict.next = chance.categorical(site, dist);
                    return verdict;
                }
            }
        }
    }
}

/// Rejection sampling of another draft and other distributions than those given.
#[derive(Debug)]
pub(super) struct OtherInputs {
    pub(super) draft: fn(&Draft) -> Draft,
    pub(super) targets: fn(&Draft, &[Dist]) -> Vec<Dist>,
}

pub(super) const SAME_INPUTS: OtherInputs =
    OtherInputs { draft: Draft::clone, targets: |_, targets| targets.to_vec() };

impl Verifier for OtherInputs {
    fn supports(&self, _shape: &DraftShape) -> bool {
        true
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        PLAIN_LOOP.verify(&(self.draft)(draft), &(self.targets)(draft, targets), chance)
    }
}

/// Rejection sampling of chains that accepts another number of tokens, given p/q of each.
#[derive(Debug)]
pub(super) struct OtherCount(pub(super) fn(&[f64], &mut dyn Chance) -> usize);

impl Verifier for OtherCount {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.branches()
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        let nodes = draft.nodes().iter().zip(targets);
        let ratios = nodes.map(|(node, p)| (PLAIN_LOOP.accept)(p, node)).collect::<Vec<_>>();
        let row = (self.0)(&ratios, chance);
        let residual = (row < draft.len()).then(|| residual_of(draft, targets, row)).flatten();
        let site = Site { purpose: Purpose::Residual, node: row };
        let next = chance.categorical(site, residual.as_ref().unwrap_or(&targets[row]));
        Verdict { path: (0..row).collect(), next, residual_fallbacks: 0 }
    }
}

/// The residual of a row of a chain; `None` if it has no mass.
pub(super) fn residual_of(draft: &Draft, targets: &[Dist], row: usize) -> Option<Dist> {
    targets[row].residual(&draft.node(row).distribution(draft.vocab()))
}

/// Always the first of the most probable tokens.
pub(super) fn argmax_of(dist: &Dist) -> Dist {
    Dist::one_hot(dist.vocab(), dist.argmax())
}
