//! No draft: plain autoregressive decoding in the same loop.

use super::{BuildDrafter, Drafter, Pausing, Round};
use crate::core::error::Error;
use crate::core::registry::Entry;
use crate::core::tree::{Draft, DraftShape};

pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "none",
    aliases: &["plain", "autoregressive"],
    params: &[],
    summary: "plain autoregressive decoding: the baseline",
    paper: "-",
    build: BuildDrafter {
        needs_model: false,
        shape: |_| Ok(DraftShape::NOTHING),
        make: |_| Ok(Box::new(NoDraft)),
    },
};

/// The drafter that proposes nothing: plain autoregressive decoding.
pub const PLAIN: &str = ENTRY.name;

/// Whether a drafter of this name proposes nothing: whether this is plain decoding, the baseline.
pub fn is_plain(drafter: &str) -> bool {
    drafter == PLAIN || ENTRY.aliases.contains(&drafter)
}

/// Proposes nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoDraft;

impl<'a> Drafter<'a> for NoDraft {
    /// It drafts nothing, so no length depends on estimates.
    fn estimates(&mut self) -> bool {
        true
    }

    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move { Ok(Draft::empty(round.vocab)) })
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        Ok(Box::new(*self))
    }
}
