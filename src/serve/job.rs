//! What connections and the engine tell each other.

use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use super::api_error::ApiError;
use super::speculation::Speculation;
use crate::decode::StopReason;
use crate::distribution::Token;
use crate::model::ChatMessage;
use crate::sampling::SamplingParams;

/// A prompt as it was sent.
#[derive(Debug, Clone)]
pub(super) enum SentPrompt {
    /// Text.
    Text(String),
    /// Tokens.
    Tokens(Vec<Token>),
    /// The messages of a conversation.
    Chat(Vec<ChatMessage>),
}

/// How a text is to be made.
#[derive(Debug, Clone)]
pub(super) struct TextOptions {
    pub(super) sampling: SamplingParams,
    /// None for as many as the context has.
    pub(super) max_tokens: Option<usize>,
    pub(super) seed: u64,
    pub(super) stop: Vec<String>,
    pub(super) ignore_eos: bool,
    /// The most probable tokens to tell at each place.
    pub(super) logprobs: Option<usize>,
    /// The same for the prompt.
    pub(super) prompt_logprobs: Option<usize>,
}

/// A text to be made.
#[derive(Debug)]
pub(super) struct TextJob {
    /// Its number in the answer.
    pub(super) index: usize,
    /// Its number among the texts of its prompt.
    pub(super) repeat: u32,
    pub(super) prompt: SentPrompt,
    pub(super) wanted: TextOptions,
    pub(super) deadline: Instant,
    pub(super) events: UnboundedSender<(usize, TextEvent)>,
}

/// What happens to a text.
#[derive(Debug)]
pub(super) enum TextEvent {
    /// It begins.
    Begun(BegunText),
    /// A round has given these tokens.
    Part(RoundText),
    /// It has ended.
    Ended(EndedText),
    /// It cannot be made, or not to its end.
    Failed(ApiError),
}

/// The prompt as tokens.
#[derive(Debug, Clone)]
pub(super) struct BegunText {
    pub(super) prompt: Vec<Token>,
    /// Of every token but the first.
    pub(super) logprobs: Option<Vec<TokenLogprobs>>,
    /// The text of the prompt, for requests that want it back.
    pub(super) text: String,
}

/// A part of a text.
#[derive(Debug, Clone, Default)]
pub(super) struct RoundText {
    pub(super) text: String,
    pub(super) tokens: Vec<Token>,
    pub(super) logprobs: Vec<TokenLogprobs>,
}

/// How a text has ended.
#[derive(Debug, Clone)]
pub(super) struct EndedText {
    pub(super) reason: StopReason,
    pub(super) speculation: Speculation,
}

/// A token with its log-probability and the most probable ones of its place.
#[derive(Debug, Clone)]
pub(super) struct TokenLogprobs {
    pub(super) own: NamedLogprob,
    /// The rank of the token, from 1.
    pub(super) rank: usize,
    pub(super) top: Vec<NamedLogprob>,
}

/// A token, what it stands for, and its log-probability.
#[derive(Debug, Clone)]
pub(super) struct NamedLogprob {
    pub(super) token: Token,
    pub(super) bytes: Vec<u8>,
    pub(super) name: String,
    /// Natural; JSON has no −∞, so that impossible tokens have −9999.
    pub(super) logprob: f64,
}
