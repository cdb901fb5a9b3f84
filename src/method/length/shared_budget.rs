//! A budget of drafted tokens per round, allotted to the tokens of all sequences that are most
//! likely to survive.
//!
//! The survival of a sequence's i-th token is estimated as αⁱ. α comes from the sequence's past
//! rounds, pooled with those of all sequences. The budget takes tokens by descending survival.
//! Ranking by the draft model's confidence in the drafted tokens themselves would change the output
//! distribution, so servers that use confidences take those of earlier rounds.

use super::{BatchView, BuildLength, DraftLength, LengthParams, PastAcceptance};
use crate::core::params::Param;
use crate::core::registry::Entry;
use crate::core::round::RoundEvent;

const DRAFT_BUDGET: Param = Param::count(
    "draft_budget",
    16,
    0..=4096,
    "drafted tokens per round, for all sequences that share it",
);

pub(super) const ENTRY: Entry<BuildLength> = Entry {
    name: "shared_budget",
    aliases: &[],
    params: &[DRAFT_BUDGET],
    summary: "a token budget for the whole batch, at most K per sequence; it favours sequences \
              whose past drafts survived",
    paper: "vLLM, adaptive verification; Liu et al. 2024, arXiv 2406.14066",
    build: |params| Ok(Box::new(SharedBudget::new(params))),
};

/// The weight, in tokens, of the acceptance of all sequences when pooled with a sequence's own.
/// With a small weight, the budget follows lucky sequences.
const PRIOR: f64 = 64.0;

/// The budget as one of the sequences sees it.
#[derive(Debug, Clone)]
struct SharedBudget {
    k: usize,
    tokens: usize,
    past: PastAcceptance,
    /// Its share of the budget in this round.
    part: usize,
}

impl SharedBudget {
    fn new(params: &LengthParams<'_>) -> Self {
        let (k, tokens) = (params.num_speculative_tokens, params.params.count(&DRAFT_BUDGET));
        Self { k, tokens, past: PastAcceptance::default(), part: k.min(tokens) }
    }

    /// The number of levels that the sequence drafts. Ties go to the lower level, then to the
    /// earlier sequence.
    fn part(&self, batch: &BatchView<'_>) -> usize {
        let pasts = batch.sequences.iter().map(|sequence| sequence.acceptance);
        let all = pasts.fold(PastAcceptance::GUESS, PastAcceptance::and).alpha();
        let tokens = batch.sequences.iter().enumerate().flat_map(|(at, sequence)| {
            let alpha = sequence.acceptance.pooled_with(all, PRIOR);
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
}
