//! A sequence as another program logged it, and what is read from its JSON.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::core::distribution::Token;
use crate::tapes::tape::{LoggedRound, TapeDrafter, TapeEnd, TapeLog};

/// A sequence of another program.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LoggedSequence {
    /// The tokens of the prompt.
    pub prompt_tokens: Option<Vec<Token>>,
    /// The text of the prompt.
    pub prompt: Option<String>,
    /// The request whose messages and tools are the prompt.
    pub request: Option<Value>,
    /// The tokens of the completion; empty if only its text is known.
    pub tokens: Vec<LoggedToken>,
    /// The text of the completion.
    pub text: Option<String>,
    /// Whether a token or a stop string ended the completion.
    pub stopped: bool,
    /// Whether its log-probabilities are known to be those after all processors.
    pub processed: bool,
    /// How far drafts along the completion would have been accepted.
    pub drafts: Vec<LoggedDrafts>,
    /// Number of lists of drafts that belong to other completions.
    pub foreign_drafts: usize,
}

/// How far drafts from each token of a completion were accepted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoggedDrafts {
    /// The drafter.
    pub drafter: TapeDrafter,
    /// Accepted tokens, by the token that the draft begins at.
    pub accepted: Vec<usize>,
}

/// A decoding of which only the rounds are known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LoggedRounds {
    /// A name for its prompt, if it has one.
    pub prompt: String,
    /// Its category.
    pub category: String,
    /// Tokens of the prompt; 0 if not logged.
    pub prompt_tokens: usize,
    /// Tokens of the completion.
    pub tokens: usize,
    /// The rounds; if the log does not state how many tokens were drafted, as many as were
    /// accepted.
    pub rounds: Vec<LoggedRound>,
    /// Whether the log states how many tokens were drafted.
    pub drafted_known: bool,
    /// Whether their order is unknown.
    pub unordered: bool,
}

/// What is known of the rounds of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RequestRounds {
    /// What names its prompt; empty if nothing does.
    pub prompt: String,
    /// What else must be equal for two requests to be compared: the cell of a run.
    pub group: String,
    /// The category of its prompt.
    pub category: String,
    /// Tokens of the completion.
    pub tokens: usize,
    /// The number of rounds; expected ones of a scored completion.
    pub rounds: f64,
    /// The rounds one by one, if they are known.
    pub steps: Vec<LoggedRound>,
    /// Whether the steps are in their order.
    pub ordered: bool,
    /// Whether the log states how many tokens were drafted.
    pub drafted_known: bool,
}

impl RequestRounds {
    /// Those of a logged decoding.
    pub(super) fn of_log(log: TapeLog, group: String) -> Self {
        Self {
            prompt: log.prompt,
            group,
            category: log.category,
            tokens: log.tokens,
            rounds: log.rounds.len() as f64,
            steps: log.rounds,
            ordered: !log.unordered,
            drafted_known: true,
        }
    }
}

/// The contents of a line of a log.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LoggedLine {
    /// Sequences.
    pub sequences: Vec<LoggedSequence>,
    /// Decodings of which only the rounds are known.
    pub rounds: Vec<LoggedRounds>,
}

impl From<Vec<LoggedSequence>> for LoggedLine {
    fn from(sequences: Vec<LoggedSequence>) -> Self {
        Self { sequences, rounds: Vec::new() }
    }
}

/// A token of a completion.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LoggedToken {
    /// Its id.
    pub id: Option<Token>,
    /// The bytes that it stands for.
    pub bytes: Option<Vec<u8>>,
    /// Its natural log-probability.
    pub log_prob: Option<f64>,
}

impl LoggedSequence {
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

pub(super) fn field<'v>(value: &'v Value, name: &str) -> Result<&'v Value> {
    value.get(name).with_context(|| format!("it has no field \"{name}\""))
}

pub(super) fn list<'v>(value: &'v Value, name: &str) -> Result<&'v [Value]> {
    let found = field(value, name)?.as_array();
    Ok(found.with_context(|| format!("\"{name}\" is no list"))?.as_slice())
}

/// A list of counts; none if it is no list.
pub(super) fn counts(value: Option<&Value>) -> Result<Option<Vec<usize>>> {
    let Some(Value::Array(values)) = value else { return Ok(None) };
    let count = |value: &Value| {
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        count.ok_or_else(|| anyhow!("{value} is no count"))
    };
    values.iter().map(count).collect::<Result<_>>().map(Some)
}

pub(super) fn count(value: Option<&Value>) -> Option<usize> {
    value.and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok())
}

/// A list of token ids; none if it is no such list.
pub(super) fn ids(value: Option<&Value>) -> Result<Option<Vec<Token>>> {
    match value {
        Some(Value::Array(ids)) if ids.iter().all(Value::is_number) => {
            ids.iter().map(id).collect::<Result<_>>().map(Some)
        }
        _ => Ok(None),
    }
}

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
