//! A budget of drafted tokens for all sequences of a round, given to those most likely to survive.
//!
//! The survival of a sequence's i-th token is estimated as αⁱ, with α from its own past rounds
//! and, as long as these are few, from those of all sequences. The budget takes tokens in the
//! order of their survival. Servers that rank by the draft model's confidences use those of
//! earlier rounds: with those of the tokens that the budget cuts, the output would not be the
//! target's.

use super::{BatchView, BuildLength, DraftLength, LengthParams, PastAcceptance};
use crate::params::Param;
use crate::registry::Entry;
use crate::round::RoundEvent;

const DRAFT_BUDGET: Param = Param::count(
    "draft_budget",
    16,
    0..=4096,
    "drafted tokens per round of all sequences that share it",
);

/// The registry entry.
pub(super) const ENTRY: Entry<BuildLength> = Entry {
    name: "shared_budget",
    aliases: &[],
    params: &[DRAFT_BUDGET],
    summary: "a number of tokens for the whole batch, at most K each; they go to the texts whose \
              past drafts survived",
    paper: "vLLM, adaptive verification; Liu et al. 2024, arXiv 2406.14066",
    build: |params| Ok(Box::new(SharedBudget::new(params))),
};

/// How many tokens the acceptance of all sequences counts for beside a sequence's own. With few,
/// the budget follows texts that were lucky.
const PRIOR: f64 = 64.0;

/// The budget as one of the sequences sees it.
#[derive(Debug, Clone)]
struct SharedBudget {
    k: usize,
    tokens: usize,
    past: PastAcceptance,
    /// Its part of the budget in this round.
    part: usize,
}

impl SharedBudget {
    fn new(params: &LengthParams<'_>) -> Self {
        let (k, tokens) = (params.num_speculative_tokens, params.params.count(&DRAFT_BUDGET));
        Self { k, tokens, past: PastAcceptance::default(), part: k.min(tokens) }
    }

    /// How many levels the sequence drafts. Among tokens that survive as likely, the first level
    /// and then the first sequence comes first.
    fn part(&self, batch: &BatchView<'_>) -> usize {
        let pasts = batch.sequences.iter().map(|sequence| sequence.acceptance);
        let all = pasts.fold(PastAcceptance::GUESS, PastAcceptance::and).alpha();
        let tokens = batch.sequences.iter().enumerate().flat_map(|(at, sequence)| {
            let alpha = sequence.acceptance.beside(all, PRIOR);
            let most = sequence.room.min(self.k);
            (1..=most).map(move |level| (alpha.powi(level as i32), level, at))
        });
        let mut ranked = tokens.collect::<Vec<_>>();
        if self.tokens < ranked.len() {
            ranked.select_nth_unstable_by(self.tokens, |a, b| {
                b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2)))
            });
        }
        ranked.iter().take(self.tokens).filter(|(.., at)| *at == batch.own).count()
    }
}

impl DraftLength for SharedBudget {
    fn begin(&mut self, batch: &BatchView<'_>) {
        self.part = self.part(batch);
    }

    fn past(&self) -> PastAcceptance {
        self.past
    }

    fn max_depth(&self) -> usize {
        self.part
    }

    fn needs_confidence(&self) -> bool {
        false
    }

    fn observe(&mut self, event: &RoundEvent<'_>) {
        let (drafted, accepted) = (event.draft.depth(), event.verdict.path.len());
        self.past.add_round(drafted, accepted, PastAcceptance::default());
    }

    fn state_key(&self) -> Vec<u8> {
        self.past.key()
    }

    fn fork(&self) -> Box<dyn DraftLength> {
        Box::new(self.clone())
    }
}
