//! In every step, the K with the most expected tokens per second.

use super::{
    BuildPolicy, DEFAULT_MAX_K, DefaultK, PolicyEntry, ServedRound, ServerStep, ServingPolicy,
};
use crate::measure::statistics::expected_tokens;
use crate::method::length::PastAcceptance;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "goodput",
    default_k: DefaultK::Max(DEFAULT_MAX_K),
    summary: "in every step the K from 0 to K with the most expected tokens per second, by the \
              acceptance of past rounds and the costs",
    source: "Liu et al. 2024, arXiv 2406.14066",
    build: BuildPolicy::Server(|params| {
        Box::new(Goodput { k: params.k, past: PastAcceptance::GUESS })
    }),
};

#[derive(Debug)]
struct Goodput {
    k: usize,
    past: PastAcceptance,
}

impl ServingPolicy for Goodput {
    fn drafts(&mut self, step: &ServerStep<'_>) -> Vec<usize> {
        let alpha = self.past.alpha();
        let drafts =
            |k: usize| step.requests.iter().map(|request| request.most.min(k)).collect::<Vec<_>>();
        let rate = |drafts: &[usize]| {
            let tokens = drafts.iter().map(|&drafted| expected_tokens(alpha, drafted));
            tokens.sum::<f64>() / step.ms(drafts)
        };
        let all = (0..=self.k).map(drafts).map(|drafts| (rate(&drafts), drafts));
        let best = all.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, drafts)| drafts).unwrap_or_default()
    }

    fn observe(&mut self, rounds: &[ServedRound]) {
        add_step(&mut self.past, rounds);
    }
}

/// Adds the rounds of a step.
pub(super) fn add_step(past: &mut PastAcceptance, rounds: &[ServedRound]) {
    if rounds.iter().all(|round| round.drafted == 0) {
        past.forget(PastAcceptance::GUESS);
    }
    for round in rounds {
        past.add(round.drafted, round.accepted);
    }
}
