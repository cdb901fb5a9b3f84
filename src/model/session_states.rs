//! The hidden states of a sequence: those that a target keeps for its drafter, and those that a head
//! reads and continues from.

use std::ops::Range;
use std::sync::Arc;

use super::early_rows::EarlyRows;
use super::taps::{KeptStates, Supplied, check};
use super::{Features, Feed, HeadFault, ModelInfo, Session, Tap};
use crate::core::distribution::Token;
use crate::core::error::Error;

impl Session {
    /// The same sequence for a head, whose rows of committed tokens read these features, and whose
    /// rows of drafted tokens continue from `state` numbers of the row before.
    ///
    /// A row of a drafted token is never kept once the token is accepted: it is computed again,
    /// with the target's feature.
    #[must_use]
    pub fn of_head(mut self, features: &Features, state: usize) -> Self {
        self.kept = KeptStates::of_head(state);
        self.supplied = Some(Supplied::of(features));
        self
    }

    /// The same sequence for a head that drafts in parallel: the drafted tokens are masks, whose
    /// rows read this feature.
    #[must_use]
    pub fn of_parallel_head(self, features: &Features, mask: &[f32]) -> Self {
        let mut session = self.of_head(features, 0);
        if let Some(supplied) = &mut session.supplied {
            supplied.mask = Some(Arc::from(mask));
        }
        session
    }

    /// The feature of masks.
    pub(super) fn mask(&self) -> Option<&[f32]> {
        self.supplied.as_ref()?.mask.as_deref()
    }

    /// Whether rows of drafted tokens stay when these are accepted.
    pub(super) fn keeps_drafted_rows(&self) -> bool {
        let head = self.supplied.as_ref();
        head.is_none_or(|head| head.fault == Some(HeadFault::DraftRowsKept))
    }

    /// Keeps these hidden states of every token, and no others. If it holds tokens without them,
    /// these are forgotten, and computed again when they are next needed.
    ///
    /// # Errors
    /// If the model, described by `info`, does not return them.
    pub fn keep(&mut self, taps: &[Tap], info: &ModelInfo) -> Result<(), Error> {
        let kept = match taps {
            [] => KeptStates::default(),
            _ => KeptStates::of(taps, check(taps, (&info.name, info.hidden))?),
        };
        self.keep_only(kept);
        Ok(())
    }

    /// Keeps the hidden states that another sequence of the same model does.
    pub(crate) fn keep_as(&mut self, other: &Self) {
        self.keep_only(other.kept.empty());
    }

    fn keep_only(&mut self, kept: KeptStates) {
        if kept.taps == self.kept.taps {
            return;
        }
        if self.kept.has(&kept.taps) {
            self.kept = self.kept.only(kept, self.context.len() + self.tree.len());
        } else {
            self.context.clear();
            self.tree.clear();
            self.kept = kept;
        }
    }

    /// Whether it holds the first `tokens` tokens of a text, with the rows of accepted drafts.
    ///
    /// # Errors
    /// If the engine fails to move a row.
    pub(crate) fn reaches(&mut self, text: &[Token], tokens: usize) -> Result<bool, Error> {
        if !self.context.starts_with(&text[..tokens]) {
            self.rewind(text)?;
        }
        Ok(self.context.starts_with(&text[..tokens]))
    }

    /// The hidden states of the tokens `range` of a text, row by row, the states of each in the
    /// order of `taps`.
    ///
    /// # Errors
    /// If they have not been computed, or are not kept.
    pub fn states(
        &mut self,
        text: &[Token],
        range: Range<usize>,
        taps: &[Tap],
    ) -> Result<Vec<f32>, Error> {
        let held = self.reaches(text, range.end)?;
        let mut states = Vec::new();
        for slot in range {
            if !(held && self.kept.states(slot, taps, &mut states)) {
                let why = format!("the target has no hidden states of token {slot} of the text");
                return Err(Error::engine(why));
            }
        }
        Ok(states)
    }

    /// Of a head: the features of the committed tokens from slot `first` on, row by row. Those of
    /// the tokens before it must have been computed.
    pub(crate) fn supply(&mut self, first: usize, features: &[f32]) {
        if let Some(supplied) = &mut self.supplied {
            supplied.first = first;
            supplied.rows.replace(features);
        }
    }

    /// Keeps the states of computed tokens, row by row.
    pub(super) fn keep_rows(&mut self, feed: &[Feed], states: &[f32]) {
        if let Some(width) = states.len().checked_div(feed.len()).filter(|width| *width > 0) {
            for (feed, row) in feed.iter().zip(states.chunks_exact(width)) {
                self.kept.rows.put(feed.slot, row);
            }
        }
    }

    /// Rows of which only the first layers have been computed.
    pub(super) fn early(&self) -> &EarlyRows {
        &self.early
    }

    /// Appends the states of a slot at `taps`, and returns whether they are kept.
    pub(super) fn states_of(&self, slot: usize, taps: &[Tap], to: &mut Vec<f32>) -> bool {
        self.kept.states(slot, taps, to)
    }

    /// The feature of a committed token, if it has been supplied.
    pub(super) fn supplied_at(&self, slot: usize) -> Option<&[f32]> {
        let supplied = self.supplied.as_ref()?;
        supplied.rows.row(slot.checked_sub(supplied.first)?)
    }

    /// Of a head whose rows are elsewhere: they are those of these tokens.
    #[cfg(feature = "engine")]
    pub(super) fn holds_exactly(&mut self, context: &[Token]) {
        self.context.clear();
        self.context.extend_from_slice(context);
    }

    /// The states of a slot.
    pub(super) fn states_at(&self, slot: usize) -> Option<&[f32]> {
        self.kept.rows.row(slot)
    }
}
