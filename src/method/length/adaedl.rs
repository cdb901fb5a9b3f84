//! Like [`super::entropy`], with a threshold that adapts to a desired acceptance rate.

use super::signal::last;
use super::{BuildLength, DraftLength};
use crate::core::params::Param;
use crate::core::registry::Entry;
use crate::core::round::RoundEvent;
use crate::core::tree::{Draft, Node};

const FACTOR: Param = Param::number(
    "adaedl_gamma",
    0.2,
    0.0..=f64::INFINITY,
    "factor on the entropy in the bound 1 - sqrt(gamma x entropy)",
);
const WANTED: Param =
    Param::number("adaedl_acceptance", 0.9, 0.0..=1.0, "the acceptance rate to aim for");

/// The initial threshold, the step by which a round moves it, and the weights of the
/// past rate and the past threshold in their moving averages.
const START: f64 = 0.4;
const STEP: f64 = 0.01;
const KEEP_RATE: f64 = 0.5;
const KEEP_THRESHOLD: f64 = 0.9;

pub(super) const ENTRY: Entry<BuildLength> = Entry {
    name: "adaedl",
    aliases: &[],
    params: &[FACTOR, WANTED],
    summary: "at most K; stops where an entropy bound on acceptance falls below a threshold that \
              adapts to the acceptance rate",
    paper: "Agrawal et al. 2024, AdaEDL, arXiv 2410.18351",
    build: |params| {
        Ok(Box::new(AdaEdl {
            k: params.num_speculative_tokens,
            factor: params.params.number(&FACTOR),
            wanted: params.params.number(&WANTED),
            rate: params.params.number(&WANTED),
            threshold: START,
        }))
    },
};

#[derive(Debug, Clone, Copy)]
struct AdaEdl {
    k: usize,
    factor: f64,
    wanted: f64,
    /// Smoothed acceptance rate.
    rate: f64,
    threshold: f64,
}

impl DraftLength for AdaEdl {
    fn max_depth(&self) -> usize {
        self.k
    }

    fn should_continue(&mut self, draft: &Draft) -> bool {
        let bound = |node: &Node| 1.0 - (self.factor * node.entropy(draft.vocab())).sqrt();
        last(draft).is_none_or(|node| bound(node) >= self.threshold)
    }

    fn observe(&mut self, event: &RoundEvent<'_>) {
        if event.draft.is_empty() {
            return;
        }
        let rate = event.verdict.path.len() as f64 / event.draft.depth() as f64;
        self.rate = KEEP_RATE * self.rate + (1.0 - KEEP_RATE) * rate;
        let step = if self.rate < self.wanted { STEP } else { -STEP };
        let moved = (self.threshold + step).clamp(0.0, 1.0);
        self.threshold = KEEP_THRESHOLD * self.threshold + (1.0 - KEEP_THRESHOLD) * moved;
    }

    fn state_key(&self) -> Vec<u8> {
        [self.rate, self.threshold].iter().flat_map(|x| x.to_bits().to_le_bytes()).collect()
    }
}
