//! A budget of drafted tokens for the whole step, spent on the tokens most likely to survive.
//!
//! The survival of a request's i-th token is estimated as αⁱ. α comes from the request's own rounds
//! and, while these are few, from those of all requests. Tokens are ranked by survival, and the
//! budget is the number of tokens with the most expected tokens per second. Servers that rank by
//! the draft's confidences use those of earlier steps. With the confidences of the tokens that the
//! budget cuts, the output would not have the target's distribution.

use std::collections::BTreeMap;

use super::goodput::add_step;
use super::{
    BuildPolicy, DEFAULT_MAX_K, DefaultK, PolicyEntry, ServedRound, ServerStep, ServingPolicy,
};
use crate::method::length::PastAcceptance;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "budget",
    default_k: DefaultK::Max(DEFAULT_MAX_K),
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

/// Weight of the acceptance of all requests against a request's own, in tokens. With a small
/// weight, the budget follows requests that were lucky.
const PRIOR: f64 = 64.0;

/// Maximum number of budgets that are compared in a step.
const COMPARED: usize = 64;

impl Budget {
    /// The probability that a request's next token survives.
    fn alpha(&self, request: usize) -> f64 {
        self.own.get(&request).copied().unwrap_or_default().pooled_with(self.all.alpha(), PRIOR)
    }

    /// The survival of every token that could be drafted, with the index of its request in the
    /// step, the largest first.
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
