//! The draft length policies of the decoder: every request has its own. Policies that look at the
//! draft see the one that the tape holds.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    BuildPolicy, DEFAULT_MAX_K, DecodingRequest, DefaultK, PolicyEntry, PolicyParams, ServedRound,
    ServerStep, ServingPolicy,
};
use crate::core::error::Error;
use crate::core::registry::Entry;
use crate::core::round::{RoundEvent, RoundTimes, Verdict};
use crate::core::tree::{Draft, TokenBelief};
use crate::method::length::{
    BatchView, BuildLength, DraftLength, LENGTHS, LengthParams, SequencePast, needs_estimates,
};

/// All policies except the one that servers call `fixed`, too, and those that need estimates of
/// acceptance, which no tape has.
pub(super) fn entries() -> impl Iterator<Item = PolicyEntry> {
    let own = |entry: &&Entry<BuildLength>| {
        entry.name != super::fixed::ENTRY.name && !needs_estimates(entry)
    };
    LENGTHS.iter().filter(own).map(entry)
}

fn entry(length: &'static Entry<BuildLength>) -> PolicyEntry {
    PolicyEntry {
        name: length.name,
        summary: length.summary,
        source: length.paper,
        // The heuristic begins with K and goes beyond it; for others K is the maximum.
        default_k: if length.name == "heuristic" {
            DefaultK::Alone
        } else {
            DefaultK::Max(DEFAULT_MAX_K)
        },
        build: BuildPolicy::Length(length),
    }
}

/// A policy for each request.
#[derive(Debug)]
pub(super) struct OwnLengths {
    new: Box<dyn DraftLength>,
    own: BTreeMap<usize, OwnLength>,
}

/// The policy of a request, and its last draft.
#[derive(Debug)]
struct OwnLength {
    length: Box<dyn DraftLength>,
    draft: Draft,
}

impl OwnLengths {
    pub(super) fn new(
        length: &Entry<BuildLength>,
        params: &PolicyParams<'_>,
    ) -> Result<Self, Error> {
        let params = LengthParams { num_speculative_tokens: params.k, params: params.settings };
        Ok(Self { new: (length.build)(&params)?, own: BTreeMap::new() })
    }

    fn of(&mut self, request: usize) -> &mut OwnLength {
        let new = || OwnLength { length: self.new.clone(), draft: Draft::empty(1) };
        self.own.entry(request).or_insert_with(new)
    }
}

impl OwnLength {
    /// Drafts as long as the policy continues.
    fn draft(&mut self, request: &DecodingRequest<'_>) -> usize {
        self.draft = Draft::empty(1);
        while self.draft.len() < request.most && self.length.go_deeper(&self.draft) {
            let at = self.draft.len();
            let belief = request.draft.map(|draft| draft.get(at));
            if belief == Some(None) {
                // The draft has ended itself.
                break;
            }
            let node = self.draft.certain(at.checked_sub(1), 0);
            if let Some([confidence, entropy]) = belief.flatten() {
                self.draft.remember(node, TokenBelief { confidence, entropy });
            }
        }
        self.draft.len()
    }

    fn observe(&mut self, round: &ServedRound) {
        let ms = |ms: f64| Duration::from_secs_f64(ms / 1000.0);
        let verdict = Verdict { path: (0..round.accepted).collect(), ..Verdict::default() };
        self.length.observe(&RoundEvent {
            round: 0,
            context: &[],
            draft: &self.draft,
            logits: &[],
            targets: &[],
            verdict: &verdict,
            accepted_raw: round.accepted,
            emitted: &[],
            truncated: false,
            draft_forwards: round.drafted,
            experts: 0,
            times: RoundTimes {
                draft: ms(round.draft_ms),
                target: ms(round.verify_ms),
                ..RoundTimes::default()
            },
            batch: 1,
        });
    }
}

impl ServingPolicy for OwnLengths {
    fn drafts(&mut self, step: &ServerStep<'_>) -> Vec<usize> {
        let past = step.requests.iter().map(|request| {
            let acceptance = self.of(request.number).length.past();
            SequencePast { acceptance, room: request.most }
        });
        let sequences = past.collect::<Vec<_>>();
        let drafts = step.requests.iter().enumerate().map(|(own, request)| {
            let length = self.of(request.number);
            length.length.begin(&BatchView { sequences: &sequences, own });
            length.draft(request)
        });
        drafts.collect()
    }

    fn observe(&mut self, rounds: &[ServedRound]) {
        for round in rounds {
            self.of(round.request).observe(round);
        }
    }

    fn forget(&mut self, request: usize) {
        self.own.remove(&request);
    }
}
