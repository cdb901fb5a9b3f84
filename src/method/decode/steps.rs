//! The results of the steps of a round.

use crate::core::distribution::{Dist, Token};
use crate::core::round::{RoundEvent, RoundTimes, Verdict};
use crate::core::sampling::Logits;
use crate::core::tree::Draft;

/// The draft of a round.
#[derive(Debug, Default)]
pub struct Proposal {
    /// The proposed tokens.
    pub draft: Draft,
    /// Number of passes of the drafter's model.
    pub forwards: usize,
    /// Whether it is empty because the context of the drafter's model is full.
    pub full: bool,
}

/// The target's evaluation of a draft.
#[derive(Debug, Default)]
pub struct Evaluated {
    /// The target's logits, by [`Row`](crate::core::tree::Row).
    pub logits: Vec<Logits>,
    /// Its processed distributions, in the same rows.
    pub targets: Vec<Dist>,
    /// See [`RoundEvent::experts`].
    pub experts: usize,
}

/// A committed round.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The verdict up to the end of the completion, and the number of tokens accepted before that
    /// cut.
    pub(super) verdict: Verdict,
    pub(super) accepted_raw: usize,
    pub(super) before: usize,
    pub(super) truncated: bool,
    /// The time of the round by phase; filled in by the driver.
    pub times: RoundTimes,
    /// Number of generations that shared the round; filled in by the driver.
    pub batch: usize,
}

impl Outcome {
    /// The round as an event; `tokens` are the generation's, after the round.
    pub fn event<'e>(
        &'e self,
        round: u64,
        tokens: &'e [Token],
        proposal: &'e Proposal,
        evaluated: &'e Evaluated,
    ) -> RoundEvent<'e> {
        let (context, emitted) = tokens.split_at(self.before);
        RoundEvent {
            round,
            context,
            draft: &proposal.draft,
            logits: &evaluated.logits,
            targets: &evaluated.targets,
            verdict: &self.verdict,
            accepted_raw: self.accepted_raw,
            emitted,
            truncated: self.truncated,
            draft_forwards: proposal.forwards,
            experts: evaluated.experts,
            times: self.times,
            batch: self.batch,
        }
    }
}
