//! Rejection sampling: on a chain the rule of Leviathan/Chen, on a tree
//! recursive rejection sampling.
//!
//! At a node with target law `b`, each child `x` drawn from `s` is accepted
//! with probability `min(1, b(x) / s(x))`; after a rejection `b` becomes
//! `norm((b − s)⁺)` and the next sibling is tried. If no child is left the next
//! token is drawn from `b`: the correction after rejections, the bonus token
//! at a leaf. Siblings drawn twice are tried twice.
//!
//! Cost: O(V) per rejected child and one ratio per accepted one.

use std::borrow::Cow;

use super::Verifier;
use crate::chance::{Chance, Purpose, Site};
use crate::dist::Dist;
use crate::registry::{Class, Entry};
use crate::round::Verdict;
use crate::tree::{Draft, DraftShape, Node};

/// Its line in the registry.
pub(super) const ENTRY: Entry<&'static dyn Verifier> = Entry {
    name: "rejection",
    aliases: &["standard", "speculative_sampling", "rrs"],
    class: Some(Class::D),
    shape: None,
    summary: "accept with min(1, p/q), correct from the residual; recursive over siblings",
    paper: "Leviathan et al. 2023, arXiv 2211.17192, Alg. 1; Chen et al. 2023, arXiv 2302.01318; \
            trees: Miao et al. 2023, arXiv 2305.09781",
    build: &Rejection,
};

/// Recursive rejection sampling.
#[derive(Debug, Clone, Copy)]
pub struct Rejection;

impl Verifier for Rejection {
    fn supports(&self, _shape: &DraftShape) -> bool {
        true
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        let mut verdict = Verdict::default();
        loop {
            let at = verdict.path.last().copied();
            let mut law = Cow::Borrowed(&targets[verdict.last_row()]);
            let mut purpose = Purpose::Bonus;
            let accepted = draft.children(at).find(|&child| {
                let node = draft.node(child);
                let site = Site { purpose: Purpose::Accept, node: child };
                if chance.bernoulli(site, ratio(&law, node)) {
                    return true;
                }
                purpose = Purpose::Residual;
                match law.residual(&node.law(draft.vocab())) {
                    Some(rest) => law = Cow::Owned(rest),
                    None => verdict.residual_fallbacks += 1,
                }
                false
            });
            match accepted {
                Some(child) => verdict.path.push(child),
                None => {
                    let site = Site { purpose, node: verdict.last_row() };
                    verdict.next = chance.categorical(site, &law);
                    return verdict;
                }
            }
        }
    }
}

/// `b(x) / s(x)`, and zero where the target excludes the token.
fn ratio(law: &Dist, node: &Node) -> f64 {
    let p = law.p(node.token);
    if p > 0.0 { p / node.q(node.token) } else { 0.0 }
}
