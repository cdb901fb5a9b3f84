//! What speculation did for a completion, in the fields of vLLM's
//! `--per-request-spec-decode-metrics detailed`.

use serde::Serialize;

use crate::core::round::RoundEvent;

/// Rounds of a completion. As in vLLM, steps are the rounds with a draft; the lists have all rounds,
/// so that they show which tokens each of them gave. Accepted tokens are those that the completion
/// kept: its end may lie within the accepted part of a draft.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Speculation {
    /// Tokens per step.
    mean_acceptance_length: f64,
    /// Accepted per drafted token.
    draft_acceptance_rate: f64,
    /// Steps by accepted tokens, from 0 to K.
    acceptance_histogram: Vec<usize>,
    num_spec_steps: usize,
    num_accepted_draft_tokens: usize,
    num_draft_tokens: usize,
    /// K.
    num_spec_tokens: usize,
    per_step_accepted: Vec<usize>,
    per_step_drafted: Vec<usize>,
}

impl Speculation {
    /// No round yet; drafts have at most K tokens.
    pub(super) fn new(k: usize) -> Self {
        let (mean_acceptance_length, acceptance_histogram) = (1.0, vec![0; k + 1]);
        Self { num_spec_tokens: k, mean_acceptance_length, acceptance_histogram, ..Self::default() }
    }

    pub(super) fn add(&mut self, event: &RoundEvent<'_>) {
        let accepted = event.verdict.path.len();
        let drafted = event.draft.len();
        self.per_step_accepted.push(accepted);
        self.per_step_drafted.push(drafted);
        if drafted == 0 {
            return;
        }
        if accepted >= self.acceptance_histogram.len() {
            self.acceptance_histogram.resize(accepted + 1, 0);
        }
        self.acceptance_histogram[accepted] += 1;
        self.num_spec_steps += 1;
        self.num_accepted_draft_tokens += accepted;
        self.num_draft_tokens += drafted;
        let per = |sum: usize, of: usize| sum as f64 / of.max(1) as f64;
        self.mean_acceptance_length =
            1.0 + per(self.num_accepted_draft_tokens, self.num_spec_steps);
        self.draft_acceptance_rate = per(self.num_accepted_draft_tokens, self.num_draft_tokens);
    }

    /// Steps, drafted tokens, and the accepted ones of each round.
    pub(super) fn counts(&self) -> (usize, usize, &[usize]) {
        (self.num_spec_steps, self.num_draft_tokens, &self.per_step_accepted)
    }
}
