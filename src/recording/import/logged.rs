//! A text as another program logged it, and what is read from its JSON.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::distribution::Token;
use crate::tape::TapeEnd;

/// A text of another program.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LoggedText {
    /// The tokens of the prompt.
    pub prompt_tokens: Option<Vec<Token>>,
    /// Its text.
    pub prompt: Option<String>,
    /// The tokens of the text; empty if only the text is known.
    pub tokens: Vec<LoggedToken>,
    /// The text.
    pub text: Option<String>,
    /// Whether a token or a stop string ended it.
    pub stopped: bool,
    /// Whether its log-probabilities are known to be those after all processors.
    pub processed: bool,
}

/// A token of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LoggedToken {
    /// Its id.
    pub id: Option<Token>,
    /// The bytes that it stands for.
    pub bytes: Option<Vec<u8>>,
    /// Its natural log-probability.
    pub log_prob: Option<f64>,
}

impl LoggedText {
    /// How it ended.
    pub(super) fn end(&self) -> TapeEnd {
        if self.stopped { TapeEnd::Token } else { TapeEnd::Cut }
    }
}

/// The request and the response of a line: `{"request": …, "response": …}`, or one object that
/// has the fields of both.
pub(super) fn exchange(line: &Value) -> (&Value, &Value) {
    let part = |name: &str| line.get(name).filter(|part| part.is_object());
    (part("request").unwrap_or(line), part("response").unwrap_or(line))
}

/// A field that must be there.
pub(super) fn field<'v>(value: &'v Value, name: &str) -> Result<&'v Value> {
    value.get(name).with_context(|| format!("it has no field \"{name}\""))
}

/// A list that must be there.
pub(super) fn list<'v>(value: &'v Value, name: &str) -> Result<&'v [Value]> {
    let found = field(value, name)?.as_array();
    Ok(found.with_context(|| format!("\"{name}\" is no list"))?.as_slice())
}

/// A list of token ids, if it is one.
pub(super) fn ids(value: Option<&Value>) -> Result<Option<Vec<Token>>> {
    match value {
        Some(Value::Array(ids)) if ids.iter().all(Value::is_number) => {
            ids.iter().map(id).collect::<Result<_>>().map(Some)
        }
        _ => Ok(None),
    }
}

/// A token id.
pub(super) fn id(value: &Value) -> Result<Token> {
    let id = value.as_u64().and_then(|id| Token::try_from(id).ok());
    id.ok_or_else(|| anyhow!("{value} is no token id"))
}

/// A log-probability; none where it is null.
pub(super) fn log_prob(value: Option<&Value>) -> Result<Option<f64>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            // Programs that cannot write −∞ write a number far below all logarithms.
            Some(log) if log <= -9999.0 => Ok(Some(f64::NEG_INFINITY)),
            Some(log) if log <= 1e-5 => Ok(Some(log)),
            _ => bail!("{value} is no logarithm of a probability"),
        },
    }
}

/// A text, if it is one.
pub(super) fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

/// The bytes of a token from a list of numbers, or from its text.
pub(super) fn bytes(list: Option<&Value>, text: Option<&Value>) -> Option<Vec<u8>> {
    let listed = list.and_then(Value::as_array);
    let byte = |value: &Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok());
    let listed = listed.and_then(|bytes| bytes.iter().map(byte).collect::<Option<Vec<_>>>());
    listed.or_else(|| text.and_then(Value::as_str).map(|text| text.as_bytes().to_vec()))
}
