//! What connections and the engine send each other.

use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use super::api_error::ApiError;
use super::speculation::Speculation;
use crate::core::distribution::Token;
use crate::core::sampling::SamplingParams;
use crate::method::controls::ControlRequest;
use crate::method::decode::StopReason;
use crate::model::ChatMessage;

#[derive(Debug, Clone)]
pub(super) enum SentPrompt {
    Text(String),
    Tokens(Vec<Token>),
    /// The messages of a conversation.
    Chat(Vec<ChatMessage>),
}

/// A prompt in tokens.
#[derive(Debug, Clone)]
pub(super) struct ReadPrompt {
    pub(super) tokens: Vec<Token>,
    /// The address of random numbers: a completion has those that `specdec generate` has for it.
    pub(super) key: String,
}

/// How a completion is generated.
#[derive(Debug, Clone)]
pub(super) struct CompletionOptions {
    pub(super) sampling: SamplingParams,
    /// Refused if the context does not have them.
    pub(super) max_tokens: Option<usize>,
    /// In their place, as far as the context has them.
    pub(super) default_tokens: usize,
    pub(super) seed: u64,
    pub(super) stop: Vec<String>,
    /// Whether the text has the stop token or string that ended it.
    pub(super) keeps_stop: bool,
    pub(super) controls: ControlRequest,
    pub(super) ignore_eos: bool,
    /// How many of the most probable tokens to report at each position.
    pub(super) logprobs: Option<usize>,
    /// The same for the prompt.
    pub(super) prompt_logprobs: Option<usize>,
}

#[derive(Debug)]
pub(super) struct CompletionJob {
    /// Its number in the response.
    pub(super) index: usize,
    /// Its number among the completions of its prompt.
    pub(super) repeat: u32,
    pub(super) prompt: ReadPrompt,
    pub(super) options: CompletionOptions,
    pub(super) deadline: Instant,
    pub(super) events: UnboundedSender<CompletionEvent>,
}

/// The number of a completion, and what it gets; an error if it cannot be generated to its end.
pub(super) type CompletionEvent = (usize, Result<PartialCompletion, ApiError>);

/// A completion as far as it has been generated, or what it gets at once.
#[derive(Debug, Clone, Default)]
pub(super) struct PartialCompletion {
    pub(super) prompt: Option<PrefilledPrompt>,
    pub(super) part: CompletionPart,
    pub(super) end: Option<CompletionEnd>,
}

impl PartialCompletion {
    /// Adds what the completion has got.
    pub(super) fn add(&mut self, new: Self) {
        self.prompt = self.prompt.take().or(new.prompt);
        self.part.text += &new.part.text;
        self.part.tokens.extend(new.part.tokens);
        self.part.logprobs.extend(new.part.logprobs);
        self.end = self.end.take().or(new.end);
    }
}

#[derive(Debug, Clone)]
pub(super) struct PrefilledPrompt {
    pub(super) tokens: Vec<Token>,
    /// The first token, which has no probability.
    pub(super) first: NamedLogprob,
    /// Of every token but the first.
    pub(super) logprobs: Option<Vec<TokenLogprobs>>,
    /// The text of the tokens, for requests with `echo`.
    pub(super) text: String,
}

/// What a round adds to a completion.
#[derive(Debug, Clone, Default)]
pub(super) struct CompletionPart {
    pub(super) text: String,
    pub(super) tokens: Vec<Token>,
    pub(super) logprobs: Vec<TokenLogprobs>,
}

/// How a completion has ended.
#[derive(Debug, Clone)]
pub(super) struct CompletionEnd {
    pub(super) reason: StopReason,
    pub(super) speculation: Speculation,
}

/// A token with its log-probability and the most probable ones at its position.
#[derive(Debug, Clone)]
pub(super) struct TokenLogprobs {
    pub(super) own: NamedLogprob,
    /// The rank of the token, from 1.
    pub(super) rank: usize,
    pub(super) top: Vec<NamedLogprob>,
}

/// A token, its bytes, its name, and its log-probability.
#[derive(Debug, Clone)]
pub(super) struct NamedLogprob {
    pub(super) token: Token,
    pub(super) bytes: Vec<u8>,
    pub(super) name: String,
    /// Natural; JSON has no −∞, so that impossible tokens have −9999.
    pub(super) logprob: f64,
}
