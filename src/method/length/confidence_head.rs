//! Stops before a token that the drafter itself expects to be rejected.
//!
//! A confidence head reads the context and the tokens drafted so far, and estimates how likely the
//! next one is to be accepted before it is drawn. So the length depends on no token that it cuts
//! off. A cut after looking at the confidence behind a token would depend on that token, and change
//! the output distribution.

use super::{BuildLength, DraftLength};
use crate::core::params::Param;
use crate::core::registry::Entry;

const THRESHOLD: Param = Param::number(
    "acceptance_threshold",
    0.5,
    0.0..=1.0,
    "stop before a token whose estimated acceptance is smaller",
);

pub(super) const ENTRY: Entry<BuildLength> = Entry {
    name: "confidence_head",
    aliases: &["dspark"],
    params: &[THRESHOLD],
    summary: "at most K; stops before the first token that the drafter's confidence head expects \
              to be rejected",
    paper: "DeepSeek-AI 2026, DSpark, confidence head",
    build: |params| {
        let threshold = params.params.number(&THRESHOLD);
        Ok(Box::new(ConfidenceHead { k: params.num_speculative_tokens, threshold }))
    },
};

#[derive(Debug, Clone)]
struct ConfidenceHead {
    k: usize,
    threshold: f64,
}

impl DraftLength for ConfidenceHead {
    fn max_depth(&self) -> usize {
        self.k
    }

    fn is_worth(&mut self, confidence: f64) -> bool {
        confidence >= self.threshold
    }

    fn needs_estimates(&self) -> bool {
        true
    }

    fn needs_confidence(&self) -> bool {
        false
    }
}
