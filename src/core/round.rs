//! The outcome of one round: the verdict, the times, and the event that is passed to
//! drafters, length policies and observers.

use std::time::Duration;

use crate::core::distribution::{Dist, Token};
use crate::core::sampling::Logits;
use crate::core::tree::{Draft, NodeId, Row};

/// A verifier's decision: the accepted path and the token that follows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Accepted nodes, from the context downwards.
    pub path: Vec<NodeId>,
    /// Correction after a rejection, bonus after a fully accepted path.
    pub next: Token,
    /// Number of residuals without mass, which only rounding can cause; the verifier then
    /// keeps the distribution from before that step.
    pub residual_fallbacks: usize,
}

impl Verdict {
    /// The row of target logits from which the token after the path is drawn.
    pub fn last_row(&self) -> Row {
        Row::after(self.path.last().copied())
    }
}

/// The time of a round by phase, excluding diagnostics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoundTimes {
    /// Proposing, including the draft model's passes.
    pub draft: Duration,
    /// The target's pass.
    pub target: Duration,
    /// Turning logits into distributions, and verification.
    pub verify: Duration,
    /// Committing tokens, checking stop conditions, producing text.
    pub other: Duration,
}

impl RoundTimes {
    /// The whole round.
    pub fn total(&self) -> Duration {
        self.draft + self.target + self.verify + self.other
    }

    /// The share of one of the `batch` generations in the round, in whole nanoseconds.
    pub fn share(&self, batch: usize) -> Self {
        let part = |time: Duration| time / batch.max(1) as u32;
        Self {
            draft: part(self.draft),
            target: part(self.target),
            verify: part(self.verify),
            other: part(self.other),
        }
    }
}

/// One finished round.
#[derive(Debug, Clone, Copy)]
pub struct RoundEvent<'a> {
    /// Number of the round, from 0.
    pub round: u64,
    /// Tokens before the round.
    pub context: &'a [Token],
    /// The draft.
    pub draft: &'a Draft,
    /// The target's logits, by [`Row`].
    pub logits: &'a [Logits],
    /// The target's processed distributions, in the same rows.
    pub targets: &'a [Dist],
    /// The verifier's decision, without accepted tokens behind the end of the completion.
    pub verdict: &'a Verdict,
    /// Number of tokens that the verifier accepted, those behind the end included.
    pub accepted_raw: usize,
    /// The committed tokens, after any cut.
    pub emitted: &'a [Token],
    /// Whether a stop condition cut the round short of `accepted_raw + 1` tokens. The last token of
    /// the path then ends the completion, and nothing after it counts.
    pub truncated: bool,
    /// Number of passes of the drafter's model.
    pub draft_forwards: usize,
    /// Distinct experts that the target's pass needed, summed over its sparse layers; 0 of a model
    /// without experts.
    pub experts: usize,
    /// The time of the round by phase.
    pub times: RoundTimes,
    /// Number of generations that shared the round and its time.
    pub batch: usize,
}

impl RoundEvent<'_> {
    /// The context (`None`) and the accepted nodes, without the one that ends the completion.
    fn places(&self) -> impl Iterator<Item = Option<NodeId>> {
        let path = &self.verdict.path;
        let open = path.len() - usize::from(self.truncated);
        [None].into_iter().chain(path[..open].iter().copied().map(Some))
    }

    /// The nodes that the verifier decided on: the children of the context and of every accepted
    /// node, up to and including the accepted child, or all children if none was accepted. Those
    /// behind the end of the completion do not count.
    pub fn reached(&self) -> Vec<NodeId> {
        let path = &self.verdict.path;
        let mut reached = Vec::new();
        for (step, at) in self.places().enumerate() {
            for child in self.draft.children(at) {
                reached.push(child);
                if path.get(step) == Some(&child) {
                    break;
                }
            }
        }
        reached
    }

    /// The nodes at which the verifier decided on children: the context (`None`) and the accepted
    /// nodes, if they have children. Those behind the end of the completion do not count.
    pub fn forks(&self) -> Vec<Option<NodeId>> {
        self.places().filter(|&at| self.draft.children(at).next().is_some()).collect()
    }

    /// The target's distribution after a node, or after the context.
    pub fn target(&self, at: Option<NodeId>) -> &Dist {
        &self.targets[Row::after(at).number()]
    }

    /// `Σ_x min(p(x), q(x))` at a fork, with p the target's distribution there and q the
    /// distribution of its first child: the acceptance probability of a one-token draft
    /// under rejection sampling.
    pub fn overlap(&self, at: Option<NodeId>) -> f64 {
        let first = self.draft.children(at).next();
        first.map_or(0.0, |id| {
            self.target(at).overlap(&self.draft.node(id).distribution(self.draft.vocab()))
        })
    }
}
