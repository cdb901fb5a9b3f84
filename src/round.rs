//! What happened in one round: the verdict, the times, and the event that
//! drafters, length policies and observers are told.

use std::time::Duration;

use crate::distribution::{Dist, Token};
use crate::sampling::Logits;
use crate::tree::{Draft, NodeId};

/// A verifier's decision: the accepted path and the token that follows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Accepted nodes, from the context downwards.
    pub path: Vec<NodeId>,
    /// Correction after a rejection, bonus after a fully accepted path.
    pub next: Token,
    /// How often a residual had no mass, which only rounding can cause; what was
    /// left before it was then kept.
    pub residual_fallbacks: usize,
}

impl Verdict {
    /// The row of target logits that the token after the path belongs to.
    pub fn last_row(&self) -> usize {
        self.path.last().map_or(0, |id| id + 1)
    }
}

/// Where the time of a round went. Diagnostics are in none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoundTimes {
    /// Proposing, the draft model's passes included.
    pub draft: Duration,
    /// The target's pass.
    pub target: Duration,
    /// Turning logits into distributions, and verification.
    pub verify: Duration,
    /// Committing, stop conditions, text.
    pub other: Duration,
}

impl RoundTimes {
    /// The whole round.
    pub fn total(&self) -> Duration {
        self.draft + self.target + self.verify + self.other
    }
}

/// One finished round.
#[derive(Debug, Clone, Copy)]
pub struct RoundEvent<'a> {
    /// Number of the round, from 0.
    pub round: u64,
    /// Tokens before the round.
    pub context: &'a [Token],
    /// What was proposed.
    pub draft: &'a Draft,
    /// The target's logits, row 0 after the context, row `i` after node `i−1`.
    pub logits: &'a [Logits],
    /// The target's processed distributions, by the same rows.
    pub targets: &'a [Dist],
    /// What was kept.
    pub verdict: &'a Verdict,
    /// The committed tokens, after any cut.
    pub emitted: &'a [Token],
    /// A stop condition cut the round short of accepted + 1 tokens.
    pub truncated: bool,
    /// Passes of the drafter's model.
    pub draft_forwards: usize,
    /// Where the time went.
    pub times: RoundTimes,
}

impl RoundEvent<'_> {
    /// The nodes whose acceptance was decided: below the context and below every
    /// accepted node, its children up to the one that was accepted.
    pub fn reached(&self) -> Vec<NodeId> {
        let path = &self.verdict.path;
        let mut reached = Vec::new();
        for (step, at) in [None].into_iter().chain(path.iter().copied().map(Some)).enumerate() {
            for child in self.draft.children(at) {
                reached.push(child);
                if path.get(step) == Some(&child) {
                    break;
                }
            }
        }
        reached
    }

    /// The nodes (and the context) whose children were decided on: the accepted
    /// path as far as it has children.
    pub fn forks(&self) -> Vec<Option<NodeId>> {
        let path = self.verdict.path.iter().copied().map(Some);
        let mut forks = [None].into_iter().chain(path).collect::<Vec<_>>();
        forks.retain(|&at| self.draft.children(at).next().is_some());
        forks
    }

    /// The target's distribution after a node, or after the context.
    pub fn target(&self, at: Option<NodeId>) -> &Dist {
        &self.targets[at.map_or(0, |id| id + 1)]
    }

    /// `Σ_x min(p(x), q(x))` below a fork, with p the target's distribution there and
    /// q the distribution of its first child: what a draft of one token would be
    /// accepted with.
    pub fn overlap(&self, at: Option<NodeId>) -> f64 {
        let first = self.draft.children(at).next();
        first.map_or(0.0, |id| {
            self.target(at).overlap(&self.draft.node(id).distribution(self.draft.vocab()))
        })
    }
}
