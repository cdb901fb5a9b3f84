//! Strict match: the target draws its own token at every node, and a draft is
//! kept as long as it happens to contain it.
//!
//! Exact whatever the drafter does, since the drafts never influence what the
//! target draws; the price is acceptance `Σ p·q` instead of `Σ min(p, q)`.
//! On a mismatch the token already drawn is emitted; drawing a second one would
//! be inexact (total variation 0.087 on a toy).

use super::Verifier;
use crate::chance::{Chance, Purpose, Site};
use crate::dist::Dist;
use crate::registry::{Class, Entry};
use crate::round::Verdict;
use crate::tree::{Draft, DraftShape};

/// Its line in the registry.
pub(super) const ENTRY: Entry<&'static dyn Verifier> = Entry {
    name: "token_match",
    aliases: &["strict_match", "strict"],
    class: Some(Class::D),
    shape: None,
    summary: "the target samples its own token; drafts are kept while they match it",
    paper: "folklore (\"sample and compare\"); greedy: Stern et al. 2018, arXiv 1811.03115",
    build: &TokenMatch,
};

/// Sample and compare.
#[derive(Debug, Clone, Copy)]
pub struct TokenMatch;

impl Verifier for TokenMatch {
    fn supports(&self, _shape: &DraftShape) -> bool {
        true
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        let mut verdict = Verdict::default();
        loop {
            let row = verdict.last_row();
            let site = Site { purpose: Purpose::Target, node: row };
            let token = chance.categorical(site, &targets[row]);
            let at = verdict.path.last().copied();
            match draft.children(at).find(|&child| draft.node(child).token == token) {
                Some(child) => verdict.path.push(child),
                None => {
                    verdict.next = token;
                    return verdict;
                }
            }
        }
    }
}
