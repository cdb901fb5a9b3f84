//! A budget of drafted tokens for the whole step, given to the tokens most likely to survive.
//!
//! The survival of a request's i-th token is estimated as αⁱ, with α from the request's own past
//! rounds and, as long as these are few, from those of all requests. Taking the tokens in the
//! order of their survival, the budget is the number with the most expected tokens per second.
//! Servers that rank by the draft's confidences use those of earlier steps: with those of the
//! tokens that the budget cuts, the output would not be the target's.

use std::collections::BTreeMap;

use super::goodput::add_step;
use super::{BuildPolicy, PolicyEntry, ServedRound, ServerStep, ServingPolicy, USUAL_MOST, UsualK};
use crate::length::PastAcceptance;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "budget",
    usual: UsualK::Most(USUAL_MOST),
    summary: "in every step the number of drafted tokens, at most K per request, with the most \
              expected tokens per second; they go to the requests whose past drafts survived",
    source: "vLLM, adaptive verification; Liu et al. 2024, arXiv 2406.14066",
    build: BuildPolicy::Server(|params| {
        Box::new(Budget { k: params.k, all: PastAcceptance::GUESS, own: BTreeMap::new() })
    }),
};

#[derive(Debug)]
struct Budget {
    k: usize,
    all: PastAcceptance,
    own: BTreeMap<usize, PastAcceptance>,
}

/// How many tokens the acceptance of all requests counts for beside a request's own. With few, the
/// budget follows requests that were lucky.
const PRIOR: f64 = 64.0;

/// The most budgets that are compared in a step.
const COMPARED: usize = 64;

impl Budget {
    /// The probability that a request's next token survives.
    fn alpha(&self, request: usize) -> f64 {
        self.own.get(&request).copied().unwrap_or_default().pooled_with(self.all.alpha(), PRIOR)
    }

    /// The survival of every token that could be drafted, with its request's place in the step,
    /// the largest first.
    fn ranked(&self, step: &ServerStep<'_>) -> Vec<(f64, usize)> {
        let tokens = step.requests.iter().enumerate().flat_map(|(at, request)| {
            let alpha = self.alpha(request.number);
            let most = request.most.min(self.k) as i32;
            (1..=most).map(move |i| (alpha.powi(i), at))
        });
        let mut ranked = tokens.collect::<Vec<_>>();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        ranked
    }
}

impl ServingPolicy for Budget {
    fn drafts(&mut self, step: &ServerStep<'_>) -> Vec<usize> {
        let ranked = self.ranked(step);
        let mut drafts = vec![0; step.requests.len()];
        let mut best = (step.requests.len() as f64 / step.ms(&drafts), drafts.clone());
        let stride = ranked.len().div_ceil(COMPARED).max(1);
        let mut tokens = step.requests.len() as f64;
        for group in ranked.chunks(stride) {
            for (survival, at) in group {
                tokens += survival;
                drafts[*at] += 1;
            }
            let rate = tokens / step.ms(&drafts);
            if rate > best.0 {
                best = (rate, drafts.clone());
            }
        }
        best.1
    }

    fn observe(&mut self, rounds: &[ServedRound]) {
        add_step(&mut self.all, rounds);
        for round in rounds {
            let own = self.own.entry(round.request).or_default();
            own.add_round(round.drafted, round.accepted, PastAcceptance::default());
        }
    }

    fn forget(&mut self, request: usize) {
        self.own.remove(&request);
    }
}
