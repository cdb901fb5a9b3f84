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
    /// How it tells laws, for servers that score texts.
    pub(super) laws: LawsApi,
}

/// A server that is asked.
#[derive(Debug, Clone, Copy)]
pub struct NamedServer<'a> {
    /// Its address, without a path.
    pub url: &'a str,
    /// Which requests it understands.
    pub api: &'a ServerApi,
    /// The bearer token that it wants.
    pub api_key: Option<&'a str>,
    /// The name of the model; the first that it lists, if none is named.
    pub model: Option<&'a str>,
    /// Requests at a time.
    pub concurrency: usize,
    /// Requests per second at most.
    pub rate: Option<f64>,
}

impl NamedServer<'_> {
    /// The server, with the name of its model.
    ///
    /// # Errors
    /// If the address is none, the server does not answer, or makes its texts up.
    pub(super) fn open(&self) -> Result<HttpServer> {
        let mut server = HttpServer::new(self.url, self.api_key)?;
        (self.api.check)(&server)?;
        server.model = match self.model {
            Some(name) => Some(name.to_owned()),
            None => (self.api.model)(&server)?,
        };
        Ok(server)
    }
}

/// The laws that are asked for: those of the tokens that follow some prefixes.
///
/// Each is asked for as that of one token that is generated, since answers with the laws of all
/// tokens of a prompt grow with the prompt, and llama.cpp does not give them.
#[derive(Debug, Clone, Copy)]
pub(super) struct AskedLaws<'p> {
    pub(super) prefixes: &'p [Vec<Token>],
    /// How many log-probabilities of each; none for the whole vocabulary.
    pub(super) count: Option<usize>,
    /// What [`LawsApi::begin`] has found.
    pub(super) token: Option<Token>,
}

/// How a protocol tells laws before all processors.
#[derive(Debug, Clone, Copy)]
pub(super) struct LawsApi {
    /// Whether it can be asked for the whole vocabulary without its size.
    pub(super) whole: bool,
    /// Whether laws are asked for one by one: the server keeps the keys and values of one text.
    pub(super) in_turn: bool,
    /// The token that answers must consist of, where others would be told otherwise.
    pub(super) begin: fn(&HttpServer) -> Result<Option<Token>>,
    /// The body of a request.
    pub(super) request: fn(&HttpServer, &AskedLaws<'_>) -> Value,
    /// The laws in an answer, in the order of the prefixes.
    pub(super) answer: fn(&Value) -> Result<Vec<ToldLaw>>,
    /// The tokens of a text.
    pub(super) encode: fn(&HttpServer, &str) -> Result<Vec<Token>>,
}

/// Tokens with their log-probabilities, as many as were told.
pub(super) type ToldLaw = Vec<(Token, f64)>;

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

/// A token id with a log-probability.
pub(super) fn logprob(id: Option<&Value>, logprob: Option<&Value>) -> Option<(Token, f64)> {
    Some((Token::try_from(id?.as_u64()?).ok()?, logprob?.as_f64()?))
}

/// The counts of a list.
pub(super) fn counts(value: Option<&Value>) -> Option<Vec<usize>> {
    let count = |count: &Value| count.as_u64().and_then(|count| usize::try_from(count).ok());
    value?.as_array()?.iter().map(count).collect()
}
