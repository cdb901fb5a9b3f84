//! The draft length policies of the decoder that look at accepted counts and at the clock, and
//! not at tokens: every request has one of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    PolicyEntry, PolicyParams, ServedRound, ServerStep, ServingPolicy, USUAL_MOST, UsualK,
};
use crate::length::{DraftLength, LENGTHS, LengthParams};
use crate::params::Params;
use crate::round::{RoundEvent, RoundTimes, Verdict};
use crate::tree::Draft;

pub(super) const HEURISTIC: PolicyEntry = PolicyEntry {
    name: "heuristic",
    usual: UsualK::Alone,
    summary: "begins with K; two more after full acceptance, one fewer after a rejection",
    source: "Hugging Face transformers",
    build: |params| Box::new(OwnLengths::new("heuristic", params)),
};

pub(super) const UCB: PolicyEntry = PolicyEntry {
    name: "ucb",
    usual: UsualK::Most(USUAL_MOST),
    summary: "a bandit over K, K/2, K/4 … 1, rewarded with tokens per second",
    source: "Hou et al. 2025, arXiv 2505.15141",
    build: |params| Box::new(OwnLengths::new("ucb", params)),
};

#[derive(Debug)]
struct OwnLengths {
    new: Box<dyn DraftLength>,
    own: BTreeMap<usize, Box<dyn DraftLength>>,
}

impl OwnLengths {
    fn new(name: &str, params: &PolicyParams<'_>) -> Self {
        let entry = LENGTHS.iter().find(|entry| entry.name == name).unwrap_or(&LENGTHS[0]);
        let settings = Params::default();
        let params = LengthParams { num_speculative_tokens: params.k, params: &settings };
        Self { new: (entry.build)(&params), own: BTreeMap::new() }
    }

    fn of(&mut self, request: usize) -> &mut dyn DraftLength {
        &mut **self.own.entry(request).or_insert_with(|| self.new.fork())
    }
}

impl ServingPolicy for OwnLengths {
    fn drafts(&mut self, step: &ServerStep<'_>) -> Vec<usize> {
        step.requests.iter().map(|request| self.of(request.number).max_depth()).collect()
    }

    fn observe(&mut self, rounds: &[ServedRound]) {
        for round in rounds {
            let mut draft = Draft::empty(1);
            for node in 0..round.drafted {
                draft.certain(node.checked_sub(1), 0);
            }
            let ms = |ms: f64| Duration::from_secs_f64(ms / 1000.0);
            let verdict = Verdict { path: (0..round.accepted).collect(), ..Verdict::default() };
            self.of(round.request).observe(&RoundEvent {
                round: 0,
                context: &[],
                draft: &draft,
                logits: &[],
                targets: &[],
                verdict: &verdict,
                emitted: &[],
                truncated: false,
                draft_forwards: round.drafted,
                times: RoundTimes {
                    draft: ms(round.draft_ms),
                    target: ms(round.verify_ms),
                    ..RoundTimes::default()
                },
            });
        }
    }

    fn forget(&mut self, request: usize) {
        self.own.remove(&request);
    }
}
