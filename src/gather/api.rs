//! What a protocol implements.

use anyhow::Result;
use serde_json::Value;

use super::http::HttpServer;
use crate::core::distribution::Token;
use crate::core::sampling::SamplingParams;
use crate::tapes::recording::TapePrompt;
use crate::tapes::tape::TapeEnd;

/// A completion to request.
#[derive(Debug, Clone)]
pub(super) struct CompletionRequest<'p> {
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
    /// Refuses a server that is known not to sample from its model.
    pub(super) check: fn(&HttpServer) -> Result<()>,
    /// The name of the model, if requests must contain it.
    pub(super) model: fn(&HttpServer) -> Result<Option<String>>,
    pub(super) request: fn(&HttpServer, &CompletionRequest<'_>) -> Value,
    /// The completion in an answer.
    pub(super) answer: fn(&Value) -> Result<ServerCompletion>,
    /// How it reports log-probabilities, for servers that score sequences.
    pub(super) logprobs: LogprobsApi,
}

/// A server to send requests to.
#[derive(Debug, Clone, Copy)]
pub struct NamedServer<'a> {
    /// Its address, without a path.
    pub url: &'a str,
    /// The protocol that it speaks.
    pub api: &'a ServerApi,
    /// The bearer token that it requires.
    pub api_key: Option<&'a str>,
    /// The name of the model; none for the first one that the server lists.
    pub model: Option<&'a str>,
    /// Number of concurrent requests.
    pub concurrency: usize,
    /// Maximum number of requests per second.
    pub rate: Option<f64>,
}

impl NamedServer<'_> {
    /// The server, with the name of its model.
    ///
    /// # Errors
    /// If the address is malformed, the server does not answer, or its completions are synthetic.
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

/// A request for the next-token log-probabilities after some prefixes.
///
/// Each prefix is sent as the prompt of a completion of one token. Answers with the
/// log-probabilities of all prompt tokens would grow with the prompt, and llama.cpp does not give
/// them.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogprobsRequest<'p> {
    pub(super) prefixes: &'p [Vec<Token>],
    /// Number of log-probabilities per prefix; none for the whole vocabulary.
    pub(super) count: Option<usize>,
    /// The token that [`LogprobsApi::begin`] returned.
    pub(super) token: Option<Token>,
}

/// How a protocol reports log-probabilities before all processors.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogprobsApi {
    /// Whether it can report the whole vocabulary without being given its size.
    pub(super) whole: bool,
    /// Whether it takes one prefix at a time, since it caches the keys and values of one sequence.
    pub(super) in_turn: bool,
    /// The token that answers must consist of, if other tokens would be reported differently.
    pub(super) begin: fn(&HttpServer) -> Result<Option<Token>>,
    pub(super) request: fn(&HttpServer, &LogprobsRequest<'_>) -> Value,
    /// The log-probabilities in an answer, in the order of the prefixes.
    pub(super) answer: fn(&Value) -> Result<Vec<TopLogprobs>>,
    pub(super) encode: fn(&HttpServer, &str) -> Result<Vec<Token>>,
}

/// The reported tokens with their log-probabilities.
pub(super) type TopLogprobs = Vec<(Token, f64)>;

/// A completion in the answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerCompletion {
    /// The tokens of the prompt, if they are reported.
    pub(super) prompt: Option<Vec<Token>>,
    pub(super) tokens: Vec<Token>,
    pub(super) end: TapeEnd,
    /// Accepted tokens of each round.
    pub(super) accepted: Option<Vec<usize>>,
    /// Drafted tokens of each round.
    pub(super) drafted: Option<Vec<usize>>,
}

/// How a completion ended, by its reported reason.
pub(super) fn end(reason: Option<&str>) -> TapeEnd {
    match reason {
        Some("stop" | "eos" | "eos_token" | "word") => TapeEnd::Token,
        _ => TapeEnd::Cut,
    }
}

/// The numbers of a list.
pub(super) fn numbers<T: TryFrom<u64>>(value: Option<&Value>) -> Option<Vec<T>> {
    value?.as_array()?.iter().map(|number| T::try_from(number.as_u64()?).ok()).collect()
}

/// A token id with a log-probability.
pub(super) fn logprob(id: Option<&Value>, logprob: Option<&Value>) -> Option<(Token, f64)> {
    Some((Token::try_from(id?.as_u64()?).ok()?, logprob?.as_f64()?))
}
