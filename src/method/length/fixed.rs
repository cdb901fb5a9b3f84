//! Always K tokens.

use super::{BuildLength, DraftLength};
use crate::core::registry::Entry;

pub(super) const ENTRY: Entry<BuildLength> = Entry {
    name: "fixed",
    aliases: &["constant"],
    params: &[],
    summary: "always K tokens",
    paper: "Leviathan et al. 2023, arXiv 2211.17192 (gamma)",
    build: |params| Ok(Box::new(Fixed { k: params.num_speculative_tokens })),
};

/// Drafts to depth `k` in every round.
#[derive(Debug, Clone, Copy)]
pub struct Fixed {
    /// Tokens per round.
    pub k: usize,
}

impl DraftLength for Fixed {
    fn max_depth(&self) -> usize {
        self.k
    }

    fn needs_confidence(&self) -> bool {
        false
    }
}
