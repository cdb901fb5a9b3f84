//! Traversal verification; on a chain it is block verification.
//!
//! Every node is entered with a weight `w`, the probability that the path down to it is
//! kept. Depth first, the children are visited in draw order with weight
//! `min(1, w·b(x) / s(x))`; after each child below which nothing is kept,
//! `m = (w·b − s)⁺`, `w = Σm / (Σm + 1 − w)` and `b = norm(m)`. If nothing below the
//! node is kept, the node itself is kept with probability `w`, and the next token is
//! drawn from `b`. In expectation this keeps at least as many tokens as rejection
//! sampling.
//!
//! Cost: O(V) per visited node; every row of the target's distributions is needed.

use std::borrow::Cow;

use super::{BuildVerifier, Verifier};
use crate::core::chance::{Chance, Purpose, Site};
use crate::core::distribution::Dist;
use crate::core::registry::{Class, Entry};
use crate::core::round::Verdict;
use crate::core::tree::{Draft, DraftShape, NodeId, Row};

pub(super) const ENTRY: Entry<BuildVerifier> = Entry {
    name: "traversal",
    aliases: &["block", "block_verification"],
    params: &[],
    summary: "keeps the deepest node allowed by the joint ratio of its path; block verification on \
              a chain",
    paper: "chains: Sun et al. 2024, arXiv 2403.10444, Alg. 2; trees: Weng et al. 2025, \
            arXiv 2505.12398",
    build: BuildVerifier { class: Class::D, make: |_| Box::new(Traversal) },
};

/// Traversal verification.
#[derive(Debug, Clone, Copy)]
pub struct Traversal;

impl Verifier for Traversal {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.coupled
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        let mut walk = TraversalWalk { draft, targets, chance };
        // The root's weight stays 1, so the root is always kept.
        walk.visit(None, 1.0).unwrap_or_default()
    }
}

struct TraversalWalk<'w> {
    draft: &'w Draft,
    targets: &'w [Dist],
    chance: &'w mut dyn Chance,
}

impl TraversalWalk<'_> {
    /// Visits `at`, which is entered with weight `w`, and the nodes below it. Returns a
    /// verdict if one of them is kept.
    fn visit(&mut self, at: Option<NodeId>, mut w: f64) -> Option<Verdict> {
        if w <= 0.0 {
            return None;
        }
        let (draft, row) = (self.draft, Row::after(at).number());
        let mut dist = Cow::Borrowed(&self.targets[row]);
        let mut purpose = Purpose::Bonus;
        let mut fallbacks = 0;
        for child in draft.children(at) {
            let node = draft.node(child);
            // A drawn token has q > 0.
            let into = (w * dist.p(node.token) / node.q(node.token)).min(1.0);
            if let Some(verdict) = self.visit(Some(child), into) {
                return Some(verdict);
            }
            purpose = Purpose::Residual;
            let rest = dist.zip(&node.distribution(draft.vocab()), |p, s| (w * p - s).max(0.0));
            match Dist::from_measure(rest) {
                Some((rest, mass)) => {
                    // In this order of additions, w stays exactly 1 if it was 1.
                    w = mass / (mass + (1.0 - w));
                    dist = Cow::Owned(rest);
                }
                None if w < 1.0 => return None,
                None => fallbacks += 1,
            }
        }
        let kept = match at {
            Some(node) => self.chance.bernoulli(Site { purpose: Purpose::Accept, node }, w),
            None => true,
        };
        kept.then(|| Verdict {
            path: at.map_or_else(Vec::new, |id| draft.path(id)),
            next: self.chance.categorical(Site { purpose, node: row }, &dist),
            residual_fallbacks: fallbacks,
        })
    }
}
