//! Stops after a token with a low draft probability.

use super::signal::last;
use super::{BuildLength, DraftLength};
use crate::core::params::Param;
use crate::core::registry::Entry;
use crate::core::round::RoundEvent;
use crate::core::tree::Draft;

const THRESHOLD: Param = Param::number(
    "confidence_threshold",
    0.4,
    0.0..=1.0,
    "stop after a token of smaller draft probability; the initial value if it is learned",
)
.or(&["assistant_confidence_threshold", "p_min", "draft_p_min"]);
const TUNED: Param = Param::count(
    "confidence_tuned",
    1,
    0..=1,
    "1: the threshold is learned from accepted and rejected tokens; 0: it is fixed",
);

/// Number of accepted and rejected tokens from which the threshold is learned.
const ENOUGH: usize = 6;
/// Weight of a missed acceptance relative to a false one: the former costs a token, the
/// latter a draft pass.
const MISS_WEIGHT: f64 = 3.0;

pub(super) const ENTRY: Entry<BuildLength> = Entry {
    name: "confidence",
    aliases: &["assistant_confidence"],
    params: &[THRESHOLD, TUNED],
    summary: "at most K; stops after the first token of low draft probability; the threshold is \
              learned",
    paper: "Hugging Face transformers, assistant_confidence_threshold; llama.cpp, draft-p-min",
    build: |params| {
        Ok(Box::new(Confidence {
            k: params.num_speculative_tokens,
            threshold: params.params.number(&THRESHOLD),
            tuned: params.params.count(&TUNED) > 0,
            seen: Vec::new(),
        }))
    },
};

#[derive(Debug, Clone)]
struct Confidence {
    k: usize,
    threshold: f64,
    tuned: bool,
    /// Draft probability of every token that was accepted or rejected, and whether it
    /// was accepted.
    seen: Vec<(f64, bool)>,
}

impl DraftLength for Confidence {
    fn max_depth(&self) -> usize {
        self.k
    }

    fn should_continue(&mut self, draft: &Draft) -> bool {
        last(draft).is_none_or(|node| node.confidence(draft.vocab()) >= self.threshold)
    }

    fn observe(&mut self, event: &RoundEvent<'_>) {
        if !self.tuned {
            return;
        }
        for id in event.reached() {
            let kept = event.verdict.path.contains(&id);
            self.seen.push((event.draft.node(id).confidence(event.draft.vocab()), kept));
        }
        let kept = self.seen.iter().filter(|(_, kept)| *kept).count();
        if self.seen.len() >= ENOUGH && kept > 0 && kept < self.seen.len() {
            self.threshold = best_threshold(&mut self.seen, kept);
        }
    }

    fn state_key(&self) -> Vec<u8> {
        if !self.tuned {
            return Vec::new();
        }
        let seen = self.seen.iter().flat_map(|(q, kept)| {
            let mut key = q.to_bits().to_le_bytes().to_vec();
            key.push(u8::from(*kept));
            key
        });
        self.threshold.to_bits().to_le_bytes().into_iter().chain(seen).collect()
    }
}

/// The threshold with the least false positive rate + `MISS_WEIGHT` × false negative
/// rate, if tokens at or above it are predicted to be kept.
fn best_threshold(seen: &mut [(f64, bool)], kept: usize) -> f64 {
    seen.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (positives, negatives) = (kept as f64, (seen.len() - kept) as f64);
    let (mut missed, mut wrong) = (0.0, negatives);
    let mut best = (0.0, f64::INFINITY);
    for (i, &(q, kept)) in seen.iter().enumerate() {
        if i == 0 || seen[i - 1].0 < q {
            let cost = wrong / negatives + MISS_WEIGHT * missed / positives;
            if cost < best.1 {
                best = (q, cost);
            }
        }
        if kept {
            missed += 1.0;
        } else {
            wrong -= 1.0;
        }
    }
    best.0
}
