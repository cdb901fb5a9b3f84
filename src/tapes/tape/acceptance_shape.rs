//! Where in drafts and completions acceptance is lower than expected.
//!
//! Mistakes of heads leave the output exact, and each lowers acceptance somewhere else: what a head
//! reads of the target matters to the first token of a draft, what it continues from to the later
//! ones, and rows that are wrong in its cache to the completions in which they gather. So the place
//! of a loss says which mistakes could be its cause.

use serde::Serialize;

/// Normal quantile of 99.5 %, for intervals of 99 %.
const Z99: f64 = 2.575_829_303_548_901;

/// A change of the share of accepted tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ShareChange {
    /// The change.
    pub change: f64,
    /// Its standard error.
    pub error: f64,
}

/// Changes of the share of accepted tokens among those that were decided on, by their place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ShareChanges {
    /// Of the first token of a draft.
    pub first: ShareChange,
    /// Of the later ones.
    pub later: ShareChange,
    /// Of all tokens in rounds that begin within the first eighth of a completion.
    pub early: ShareChange,
    /// Of all tokens in rounds that begin within the second half of one.
    pub late: ShareChange,
}

/// Where acceptance is lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossPlace {
    /// At the beginning of completions, and no longer later on.
    AfterPrompt,
    /// More and more as completions grow, and not at their beginning.
    WithLength,
    /// At the first token of drafts, and perhaps at later ones.
    FirstToken,
    /// At later tokens of drafts alone.
    LaterTokens,
}

/// Rounds that begin before this share of a completion are early.
const EARLY: f64 = 0.125;
/// Rounds that begin after this share are late.
const LATE: f64 = 0.5;

/// Whether a round that begins after this share of a completion is early, and whether it is late.
pub fn early_and_late(share: f64) -> [bool; 2] {
    [share < EARLY, share >= LATE]
}

impl ShareChange {
    /// Whether the share is lower, by an interval of 99 %.
    fn is_lower(self) -> bool {
        self.change + Z99 * self.error < 0.0
    }

    /// Whether a loss is larger than another one, by an interval of 99 %, which is at most a third.
    fn far_below(self, other: Self) -> bool {
        let change = self.change - other.change;
        let error = self.error.hypot(other.error);
        Self { change, error }.is_lower() && 3.0 * other.change > self.change
    }
}

impl ShareChanges {
    /// Where acceptance is lower; `None` if no place shows it.
    pub fn place(&self) -> Option<LossPlace> {
        let Self { first, later, early, late } = *self;
        if early.is_lower() && early.far_below(late) {
            Some(LossPlace::AfterPrompt)
        } else if late.is_lower() && late.far_below(early) {
            Some(LossPlace::WithLength)
        } else if first.is_lower() {
            Some(LossPlace::FirstToken)
        } else if later.is_lower() {
            Some(LossPlace::LaterTokens)
        } else {
            None
        }
    }
}

impl LossPlace {
    /// The place, as the end of a sentence.
    pub fn place(self) -> &'static str {
        match self {
            Self::AfterPrompt => "near the beginning of completions alone",
            Self::WithLength => "the longer completions get, and not at their beginning",
            Self::FirstToken => "from the first token of drafts on",
            Self::LaterTokens => "at later tokens of drafts, and not at the first one",
        }
    }

    /// What looks like this in a head.
    pub fn in_heads(self) -> &'static str {
        match self {
            Self::AfterPrompt => {
                "rows of the prompt without the target's states, as after a prompt from a cache of \
                 prefixes"
            }
            Self::WithLength => {
                "rows of rejected or drafted tokens that stay in the head's cache, or wrong positions"
            }
            Self::FirstToken => {
                "states of other layers or of another token, embeddings of another token, missing or \
                 swapped norms and inputs, or a wrong table of a reduced vocabulary"
            }
            Self::LaterTokens => {
                "the state before the last norm where the one after it is fed back, or vice versa, or \
                 wrong positions of drafted tokens"
            }
        }
    }

    /// What else looks like this.
    pub fn elsewhere(self) -> &'static str {
        match self {
            Self::AfterPrompt => "a template of the prompt that the drafter does not know",
            Self::WithLength => "a drafter for shorter texts, or a window that is too short",
            Self::FirstToken => {
                "any drafter that fits the target worse, or another temperature of its drafts"
            }
            Self::LaterTokens => "drafts that are longer than those a head was trained for",
        }
    }
}
