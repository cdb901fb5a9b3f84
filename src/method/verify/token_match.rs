//! Strict match: the target draws its own token at every node, and a drafted token is kept if it
//! equals that token.
//!
//! It is exact for any drafter, since drafts never influence the target's draws. The acceptance is
//! only `Σ p·q` instead of `Σ min(p, q)`. On a mismatch the token already drawn is emitted. Drawing
//! another one would be inexact (total variation 0.087 on a toy model).

use super::descent::{Decision, descend};
use super::{BuildVerifier, Verifier};
use crate::core::chance::{Chance, Purpose};
use crate::core::distribution::Dist;
use crate::core::registry::{Class, Entry};
use crate::core::round::Verdict;
use crate::core::tree::{Draft, DraftShape};

pub(super) const ENTRY: Entry<BuildVerifier> = Entry {
    name: "token_match",
    aliases: &["strict_match", "strict"],
    params: &[],
    summary: "the target samples its own token; drafts are kept while they match it",
    paper: "folklore (\"sample and compare\"); greedy: Stern et al. 2018, arXiv 1811.03115",
    build: BuildVerifier { class: Class::D, make: |_| Box::new(TokenMatch) },
};

/// Sample and compare.
#[derive(Debug, Clone, Copy)]
pub struct TokenMatch;

impl Verifier for TokenMatch {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.coupled
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        descend(draft, targets, |fork| {
            let token = fork.draw(Purpose::Target, fork.p, chance);
            match fork.children().find(|&child| draft.node(child).token == token) {
                Some(child) => Decision::Keep(child),
                None => Decision::Next { token, fallbacks: 0 },
            }
        })
    }
}
