//! What speculation did for a completion, in the fields of vLLM's
//! `--per-request-spec-decode-metrics detailed`.

use serde::Serialize;

use crate::round::RoundEvent;

/// Rounds of a completion. Rounds without a draft count as steps of no drafted tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Speculation {
    /// Tokens per round, as far as drafts and their corrections or bonus tokens gave them.
    mean_acceptance_length: f64,
    /// Accepted per drafted token.
    draft_acceptance_rate: f64,
    /// Rounds by accepted tokens, from 0 to K.
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
        Self { num_spec_tokens: k, acceptance_histogram: vec![0; k + 1], ..Self::default() }
    }

    pub(super) fn add(&mut self, event: &RoundEvent<'_>) {
        let (accepted, drafted) = (event.verdict.path.len(), event.draft.len());
        if accepted >= self.acceptance_histogram.len() {
            self.acceptance_histogram.resize(accepted + 1, 0);
        }
        self.acceptance_histogram[accepted] += 1;
        self.num_spec_steps += 1;
        self.num_accepted_draft_tokens += accepted;
        self.num_draft_tokens += drafted;
        self.per_step_accepted.push(accepted);
        self.per_step_drafted.push(drafted);
        let per = |sum: usize, of: usize| sum as f64 / of.max(1) as f64;
        self.mean_acceptance_length =
            1.0 + per(self.num_accepted_draft_tokens, self.num_spec_steps);
        self.draft_acceptance_rate = per(self.num_accepted_draft_tokens, self.num_draft_tokens);
    }

    /// Rounds, drafted and accepted tokens, and the accepted ones of each round.
    pub(super) fn counts(&self) -> (usize, usize, &[usize]) {
        (self.num_spec_steps, self.num_draft_tokens, &self.per_step_accepted)
    }
}
