//! Mistakes in how a head is fed and computed. Programs have had all of them, and none shows in the
//! output, which stays exact: only acceptance falls. They are here so that tests and studies can
//! show what finds them.

use serde::{Deserialize, Serialize};

use crate::core::distribution::Token;
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

/// Rows of rejected tokens that a head takes for those of the tokens that came instead.
#[derive(Debug, Clone, Default)]
pub(super) struct RejectedRows {
    pub(super) rows: Vec<(usize, Token)>,
    /// The slot of a row that has not been computed again yet.
    pub(super) open: Option<usize>,
}

impl RejectedRows {
    /// The token whose row is in a slot, if it is a rejected one.
    pub(super) fn token(&self, slot: usize) -> Option<Token> {
        let found = self.rows.iter().find(|(rejected, _)| *rejected == slot);
        found.map(|(_, token)| *token).filter(|_| self.open != Some(slot))
    }
}
