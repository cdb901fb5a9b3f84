//! The types of values in `experiment.toml`.

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::core::params;

/// A TOML text, integer, number or boolean as the value of a setting; `None` for other types.
pub(super) fn setting(value: &Value) -> Option<params::Value> {
    Some(match value {
        Value::String(text) => params::Value::Text(text.clone()),
        Value::Integer(n) => match usize::try_from(*n) {
            Ok(n) => params::Value::Count(n),
            Err(_) => params::Value::Number(*n as f64),
        },
        // Adding 0 turns -0.0 into 0, so that equal settings have one id.
        Value::Float(x) => params::Value::Number(x + 0.0),
        // `early_stopping = true` has the name that it has in transformers.
        Value::Boolean(flag) => params::Value::Text(flag.to_string()),
        _ => return None,
    })
}

/// How to handle prompts that leave no room for `max_tokens` in the context of a model
/// that the experiment uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LongPrompt {
    /// Refuse the experiment and list them.
    #[default]
    Error,
    /// Leave them out before prompts are chosen.
    Skip,
    /// Keep their last tokens, after what the tokenizer puts before every text.
    Truncate,
}

/// Which clock times a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockKind {
    /// Wall-clock time.
    #[default]
    Real,
    /// A fixed cost per pass and row, so that times are exactly reproducible.
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
