//! Stops after a token whose draft distribution has high entropy: the estimated lower
//! bound on its acceptance is then too low.
//!
//! By Pinsker's inequality, acceptance is at least `1 − √(KL(q‖p) / 2)`; the divergence
//! is estimated as a constant share of the draft's entropy.

use super::signal::last;
use super::{BuildLength, DraftLength};
use crate::core::params::Param;
use crate::core::registry::Entry;
use crate::core::tree::{Draft, Node};

const THRESHOLD: Param = Param::number(
    "entropy_threshold",
    0.3,
    0.0..=f64::INFINITY,
    "stop when sqrt(0.15 x entropy of the last token's distribution) exceeds this",
);

/// The published factor on the entropy under the square root.
const SHARE: f64 = 0.15;

pub(super) const ENTRY: Entry<BuildLength> = Entry {
    name: "entropy",
    aliases: &["svip"],
    params: &[THRESHOLD],
    summary: "at most K; stops after the first token whose draft distribution has high entropy",
    paper: "Zhang et al. 2025, SVIP, arXiv 2411.18462",
    build: |params| {
        let threshold = params.params.number(&THRESHOLD);
        Ok(Box::new(Entropy { k: params.num_speculative_tokens, threshold }))
    },
};

#[derive(Debug, Clone, Copy)]
struct Entropy {
    k: usize,
    threshold: f64,
}

impl DraftLength for Entropy {
    fn max_depth(&self) -> usize {
        self.k
    }

    fn should_continue(&mut self, draft: &Draft) -> bool {
        let doubt = |node: &Node| (SHARE * node.entropy(draft.vocab())).sqrt();
        last(draft).is_none_or(|node| doubt(node) <= self.threshold)
    }
}
