//! Turns prompts into tokens, in threads of their own: a chat template is a program from outside,
//! and the thread of the models must wait for none.

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
use crate::model::{Codec, Conversation};

/// How many conversations are rendered at a time. Each may take all the time and memory that a
/// template may.
const AT_ONCE: usize = 2;

#[derive(Debug)]
pub(super) struct PromptReader {
    codec: Arc<dyn Codec>,
    turns: Arc<Semaphore>,
}

impl PromptReader {
    pub(super) fn new(codec: Arc<dyn Codec>) -> Self {
        Self { codec, turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// The tokens of a prompt, unless they come too late.
    pub(super) async fn read(
        &self,
        prompt: SentPrompt,
        deadline: Instant,
    ) -> Result<ReadPrompt, ApiError> {
        let (codec, turns) = (Arc::clone(&self.codec), Arc::clone(&self.turns));
        let read = async {
            let turn = match &prompt {
                SentPrompt::Chat(_) => turns.acquire_owned().await.ok(),
                _ => None,
            };
            spawn_blocking(move || {
                // Kept until the work is done, even if nobody waits for it any more.
                let _turn = turn;
                tokens(&*codec, prompt)
            })
            .await
        };
        let read = timeout_at(deadline.into(), read).await.map_err(|_| ApiError::late())?;
        let panicked = "the prompt could not be turned into tokens";
        let read = read.map_err(|_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, panicked))?;
        Ok(read?)
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
