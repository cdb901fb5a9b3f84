//! What a protocol has to say.

use anyhow::Result;
use serde_json::Value;

use super::http::HttpServer;
use crate::distribution::Token;
use crate::recording::TapePrompt;
use crate::sampling::SamplingParams;
use crate::tape::TapeEnd;

/// A text that is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct AskedText<'p> {
    pub(super) prompt: &'p TapePrompt,
    pub(super) sampling: SamplingParams,
    pub(super) seed: u64,
    pub(super) max_tokens: usize,
}

/// A protocol.
#[derive(Debug, Clone, Copy)]
pub struct ServerApi {
    /// Its name.
    pub name: &'static str,
    /// What is sent.
    pub summary: &'static str,
    /// Where requests are sent.
    pub(super) path: &'static str,
    /// Refuses a server whose texts are known to be none of its model's.
    pub(super) check: fn(&HttpServer) -> Result<()>,
    /// The name of the model, if requests must have it.
    pub(super) model: fn(&HttpServer) -> Result<Option<String>>,
    /// The body of a request.
    pub(super) request: fn(&HttpServer, &AskedText<'_>) -> Value,
    /// What an answer says.
    pub(super) answer: fn(&Value) -> Result<AnsweredText>,
}

/// A text as a server has answered it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnsweredText {
    pub(super) tokens: Vec<Token>,
    pub(super) end: TapeEnd,
    /// Accepted tokens of each round.
    pub(super) accepted: Option<Vec<usize>>,
    /// Drafted tokens of each round.
    pub(super) drafted: Option<Vec<usize>>,
}

/// How a text ended, by its reason.
pub(super) fn end(reason: Option<&str>) -> TapeEnd {
    match reason {
        Some("stop" | "eos" | "eos_token" | "word") => TapeEnd::Token,
        _ => TapeEnd::Cut,
    }
}

/// The token ids of a list.
pub(super) fn ids(value: Option<&Value>) -> Option<Vec<Token>> {
    let id = |id: &Value| id.as_u64().and_then(|id| Token::try_from(id).ok());
    value?.as_array()?.iter().map(id).collect()
}

/// The counts of a list.
pub(super) fn counts(value: Option<&Value>) -> Option<Vec<usize>> {
    let count = |count: &Value| count.as_u64().and_then(|count| usize::try_from(count).ok());
    value?.as_array()?.iter().map(count).collect()
}
