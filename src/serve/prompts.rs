//! Turns prompts into tokens and grammars into masks, in threads of their own: chat templates and
//! grammars are programs from outside, and the thread of the models must wait for none.

use std::sync::Arc;
use std::time::Instant;

use axum::http::StatusCode;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;

use super::api_error::ApiError;
use super::job::{ReadPrompt, SentPrompt};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::Controls;
use crate::method::controls::{ControlRequest, GrammarCompiler};
use crate::model::{Codec, Conversation, ModelInfo};

/// How many conversations and grammars are read at a time. Each may take all the time and memory that a
/// template may.
const AT_ONCE: usize = 2;

#[derive(Debug)]
pub(super) struct PromptReader {
    codec: Arc<dyn Codec>,
    target: Arc<ModelInfo>,
    grammars: Arc<GrammarCompiler>,
    turns: Arc<Semaphore>,
}

impl PromptReader {
    pub(super) fn new(codec: Arc<dyn Codec>, target: ModelInfo) -> Self {
        let (grammars, turns) = (Arc::default(), Arc::new(Semaphore::new(AT_ONCE)));
        Self { codec, target: Arc::new(target), grammars, turns }
    }

    /// The tokens of a prompt, unless they come too late.
    pub(super) async fn read(
        &self,
        prompt: SentPrompt,
        deadline: Instant,
    ) -> Result<ReadPrompt, ApiError> {
        let (codec, in_turn) = (Arc::clone(&self.codec), matches!(prompt, SentPrompt::Chat(_)));
        self.apart(in_turn, deadline, move || tokens(&*codec, prompt)).await
    }

    /// The controls of `count` completions, each with a grammar of its own, unless they come too late.
    pub(super) async fn controls(
        &self,
        request: ControlRequest,
        count: usize,
        deadline: Instant,
    ) -> Result<Vec<Controls>, ApiError> {
        if request == ControlRequest::default() {
            return Ok(vec![Controls::NONE; count]);
        }
        let (codec, target) = (Arc::clone(&self.codec), Arc::clone(&self.target));
        let grammars = Arc::clone(&self.grammars);
        let read =
            move || (0..count).map(|_| request.controls(&*codec, &target, &grammars)).collect();
        self.apart(true, deadline, read).await
    }

    /// Does some work in a thread of its own; `in_turn`, after others that may take as long.
    async fn apart<T: Send + 'static>(
        &self,
        in_turn: bool,
        deadline: Instant,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let turns = Arc::clone(&self.turns);
        let done = async {
            let turn = if in_turn { turns.acquire_owned().await.ok() } else { None };
            spawn_blocking(move || {
                // Kept until the work is done, even if nobody waits for it any more.
                let _turn = turn;
                work()
            })
            .await
        };
        let done = timeout_at(deadline.into(), done).await.map_err(|_| ApiError::late())?;
        let panicked = "the prompt or its grammar could not be read";
        let done = done.map_err(|_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, panicked))?;
        Ok(done?)
    }
}

fn tokens(codec: &dyn Codec, prompt: SentPrompt) -> Result<ReadPrompt, Error> {
    let tokens = match prompt {
        SentPrompt::Text(text) => {
            return Ok(ReadPrompt { tokens: codec.encode(&text)?, key: text });
        }
        SentPrompt::Tokens(tokens) => tokens,
        SentPrompt::Chat(messages) => {
            let conversation = Conversation { messages, ..Conversation::default() };
            // Without a template, or with one that refuses these roles, the request is wrong;
            // the client must not see where the model's files lie.
            codec.encode_chat(&conversation).map_err(|error| match error {
                Error::File { why, .. } => Error::Input(why),
                error => error,
            })?
        }
    };
    let ids = tokens.iter().map(Token::to_string).collect::<Vec<_>>();
    Ok(ReadPrompt { key: format!("tokens {}", ids.join(" ")), tokens })
}
