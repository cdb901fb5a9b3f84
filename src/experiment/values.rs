//! What values of `experiment.toml` are read as.

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::params;

/// A text, an integer or a number, as settings hold it.
pub(super) fn setting(value: &Value) -> Option<params::Value> {
    Some(match value {
        Value::String(text) => params::Value::Text(text.clone()),
        Value::Integer(n) => match usize::try_from(*n) {
            Ok(n) => params::Value::Count(n),
            Err(_) => params::Value::Number(*n as f64),
        },
        // -0.0 is written as 0: one setting, one id.
        Value::Float(x) => params::Value::Number(x + 0.0),
        _ => return None,
    })
}

/// What becomes of prompts that leave no room for `max_tokens` in the context of
/// a model that the experiment uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LongPrompt {
    /// The experiment is refused, with a list of them.
    #[default]
    Error,
    /// They are left out, before any are chosen.
    Skip,
    /// They keep their last tokens, behind what the tokenizer sets before every
    /// text.
    Truncate,
}

impl LongPrompt {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Error, Self::Skip, Self::Truncate];

    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Skip => "skip",
            Self::Truncate => "truncate",
        }
    }
}

/// Which clock times a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockKind {
    /// Wall-clock time.
    #[default]
    Real,
    /// A fixed cost per pass and row: reproducible to the last digit.
    Virtual,
}

impl ClockKind {
    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            ClockKind::Real => "real",
            ClockKind::Virtual => "virtual",
        }
    }
}
