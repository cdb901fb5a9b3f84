//! Mistakes in how a head is fed and computed. Programs have had all of them, and none shows in the
//! output, which stays exact: only acceptance falls. They are here so that tests and studies can
//! show what finds them.

use serde::{Deserialize, Serialize};

use super::session::child;
use super::taps::Supplied;
use super::{Features, HeadStep, Session, Tap};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::registry::named;

/// A mistake in how a head is fed or computed. [`bugs`](crate::bugs::bugs) describes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the table of bugs has a sentence for each
pub enum HeadFault {
    TapEarly,
    TapLate,
    TapsReversed,
    FeatureStale,
    PromptFeaturesMissing,
    TokenEarly,
    DraftPositionsLate,
    AllPositionsLate,
    DraftRowsKept,
    RejectedRowsKept,
    InputsSwapped,
    ResidualSwitched,
    FeedbackSwitched,
    InputNormsMissing,
    FeatureNormsMissing,
    DraftIdsIgnored,
    DraftIdsAbsolute,
}

named!(
    HeadFault: TapEarly = "tap_early",
    TapLate = "tap_late",
    TapsReversed = "taps_reversed",
    FeatureStale = "feature_stale",
    PromptFeaturesMissing = "prompt_features_missing",
    TokenEarly = "token_early",
    DraftPositionsLate = "draft_positions_late",
    AllPositionsLate = "all_positions_late",
    DraftRowsKept = "draft_rows_kept",
    RejectedRowsKept = "rejected_rows_kept",
    InputsSwapped = "inputs_swapped",
    ResidualSwitched = "residual_switched",
    FeedbackSwitched = "feedback_switched",
    InputNormsMissing = "input_norms_missing",
    FeatureNormsMissing = "feature_norms_missing",
    DraftIdsIgnored = "draft_ids_ignored",
    DraftIdsAbsolute = "draft_ids_absolute"
);

impl Features {
    /// The same features with a mistake, of a target with `layers` layers.
    ///
    /// # Errors
    /// If there is no such state.
    pub(crate) fn with_fault(mut self, fault: HeadFault, layers: usize) -> Result<Self, Error> {
        self.fault = Some(fault);
        let shift = |tap: &Tap| match (fault, *tap) {
            (HeadFault::TapEarly, Tap::After(after)) => after.checked_sub(1).map(Tap::After),
            (HeadFault::TapEarly, Tap::Normed) => Some(Tap::After(layers)),
            (HeadFault::TapLate, Tap::After(after)) if after == layers => Some(Tap::Normed),
            (HeadFault::TapLate, Tap::After(after)) => Some(Tap::After(after + 1)),
            (HeadFault::TapLate, Tap::Normed) => None,
            (_, tap) => Some(tap),
        };
        let shifted = self.taps.iter().map(shift).collect::<Option<Vec<_>>>();
        self.taps = shifted.ok_or_else(|| {
            Error::setting(format!("fault = {}: the target has no such state", fault.name()))
        })?;
        if fault == HeadFault::TapsReversed {
            self.taps.reverse();
        }
        Ok(self)
    }
}

/// Rows of rejected tokens that a head takes for those of the tokens that came instead.
#[derive(Debug, Clone, Default)]
pub(super) struct RejectedRows {
    rows: Vec<(usize, Token)>,
    /// The slot of a row that has not been computed again yet.
    open: Option<usize>,
}

impl RejectedRows {
    /// The token whose row is in a slot, if it is a rejected one.
    pub(super) fn token(&self, slot: usize) -> Option<Token> {
        let found = self.rows.iter().find(|(rejected, _)| *rejected == slot);
        found.map(|(_, token)| *token).filter(|_| self.open != Some(slot))
    }
}

impl Session {
    /// Makes the mistake of its head, if any, in what a level of a pass reads.
    pub(super) fn spoil(&self, step: &mut HeadStep, level: usize) {
        let Some(Supplied { fault: Some(fault), rejected, .. }) = &self.supplied else { return };
        if *fault == HeadFault::TokenEarly && level == 0 {
            let first = step.feed.first().and_then(|feed| feed.slot.checked_sub(1));
            let mut before = first.and_then(|slot| self.context.get(slot).copied());
            for feed in &mut step.feed {
                let own = feed.token;
                feed.token = before.unwrap_or(own);
                before = Some(own);
            }
        }
        for feed in &mut step.feed {
            match fault {
                HeadFault::RejectedRowsKept => {
                    feed.token = rejected.token(feed.slot).unwrap_or(feed.token);
                }
                HeadFault::DraftPositionsLate if level > 0 => feed.position += 1,
                HeadFault::AllPositionsLate => feed.position += 1,
                _ => {}
            }
        }
    }

    /// Of a head that keeps the rows of rejected tokens: called before a pass over `own`.
    pub(crate) fn keep_rejected(&mut self, own: &[Token]) {
        let held = self.context.len();
        let last = own.len().saturating_sub(1);
        let rejected = if held <= last { self.rejected_by(own) } else { None };
        let Some(supplied) = &mut self.supplied else { return };
        if let Some(slot) = supplied.rejected.open.filter(|slot| *slot < last) {
            self.context.truncate(slot);
            supplied.rejected.open = None;
        }
        if let Some((slot, token)) = rejected {
            supplied.rejected.rows.push((slot, token));
            supplied.rejected.open = Some(slot);
        }
    }

    /// The first drafted token that `own` does not have, with its slot.
    fn rejected_by(&self, own: &[Token]) -> Option<(usize, Token)> {
        let (mut last, mut slot) = (None, self.context.len());
        while let Some(id) = child(&self.tree, last, *own.get(slot)?, 0) {
            (last, slot) = (Some(id), slot + 1);
        }
        let rejected = self.tree.iter().find(|node| node.filled && node.parent == last)?;
        Some((slot, rejected.token))
    }
}
