//! A longer draft after full acceptance, a shorter one after a rejection.

use super::{BuildLength, DraftLength};
use crate::core::registry::Entry;
use crate::core::round::RoundEvent;

pub(super) const ENTRY: Entry<BuildLength> = Entry {
    name: "heuristic",
    aliases: &["heuristic_transient"],
    params: &[],
    summary: "starts with K; two more after full acceptance, one fewer after a rejection",
    paper: "Hugging Face transformers, num_assistant_tokens_schedule = \"heuristic_transient\"",
    build: |params| Ok(Box::new(Heuristic { k: params.num_speculative_tokens })),
};

/// Drafts do not grow beyond this length, half of the nodes that a cache has room for.
const MOST: usize = 32;

/// Additive increase and decrease of the draft length.
#[derive(Debug, Clone, Copy)]
struct Heuristic {
    k: usize,
}

impl DraftLength for Heuristic {
    fn max_depth(&self) -> usize {
        self.k
    }

    fn needs_confidence(&self) -> bool {
        false
    }

    fn observe(&mut self, event: &RoundEvent<'_>) {
        if event.draft.is_empty() {
            return;
        }
        let all = event.verdict.path.len() == event.draft.depth();
        self.k = if all { (self.k + 2).min(MOST.max(self.k)) } else { (self.k - 1).max(1) };
    }

    fn state_key(&self) -> Vec<u8> {
        self.k.to_le_bytes().to_vec()
    }
}
