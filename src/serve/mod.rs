//! A server over the engine that speaks OpenAI's protocol, with vLLM's additions: token ids in
//! and out, and what speculation did for each request.
//!
//! The response to a request has `n` completions of each of its prompts. The models live on one
//! thread (`serving.rs`), where all running completions share rounds. Each has a session and
//! random numbers of its own, so that the others change nothing. Connections live on a runtime of
//! their own, and send completions to be generated through a bounded queue.

mod access;
mod api_error;
mod chat;
mod completions;
mod connections;
mod controls;
mod engine;
mod fields;
mod job;
mod latencies;
mod logprobs;
mod meters;
mod prompts;
mod pulse;
mod response;
mod router;
mod running;
mod serving;
mod speculation;
mod state;
mod stream;

use std::net::SocketAddr;
use std::time::Duration;

pub use engine::ServedPair;
pub use router::MUTANT_HEADER;
pub use serving::serve;

/// What a server allows.
#[derive(Debug, Clone)]
pub struct ServeLimits {
    /// Completions that share rounds.
    pub slots: usize,
    /// Completions that wait; further ones are refused with status 429.
    pub queue: usize,
    /// Bytes of a request's body.
    pub body: usize,
    /// Tokens of a completion; none for as many as the model's context has.
    pub tokens: Option<usize>,
    /// How long a completion may take, with its time in the queue.
    pub time: Duration,
    /// Logprobs per token.
    pub logprobs: usize,
    /// Tokens of the vocabulary: the number of logprobs that stands for all tokens.
    pub vocab: usize,
}

/// The distribution that log-probabilities in responses are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogprobsMode {
    /// The target's, before all processors.
    Raw,
    /// The one that tokens are drawn from.
    Processed,
}

impl LogprobsMode {
    /// All.
    pub const ALL: [Self; 2] = [Self::Raw, Self::Processed];

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Processed => "processed",
        }
    }
}

/// What the metrics of `/metrics` are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricNames {
    /// `specdec_` and a name.
    Own,
    /// As in vLLM, for those that vLLM has, with its labels.
    Vllm,
}

impl MetricNames {
    /// All.
    pub const ALL: [Self; 2] = [Self::Own, Self::Vllm];

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "specdec",
            Self::Vllm => "vllm",
        }
    }
}

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct ServeSettings {
    /// Where it listens.
    pub address: SocketAddr,
    /// The name of the model in requests and responses.
    pub model: String,
    /// What a client must send as a bearer token.
    pub api_key: Option<String>,
    /// Names of the machine, in lower case, that requests may call it by: `localhost` and IP
    /// addresses always may be.
    pub allowed_hosts: Vec<String>,
    /// The known-wrong method that it serves.
    pub mutant: Option<&'static str>,
    /// Which log-probabilities it reports.
    pub logprobs: LogprobsMode,
    /// What its metrics are called.
    pub metrics: MetricNames,
    /// What it allows.
    pub limits: ServeLimits,
}
