//! `POST /v1/chat/completions`.

use serde::Deserialize;
use serde_json::Value;

use super::ServeLimits;
use super::api_error::ApiError;
use super::fields::{Fields, refused};
use super::job::SentPrompt;
use super::response::{ClientRequest, RequestKind};
use crate::model::ChatMessage;

const MOST_MESSAGES: usize = 1024;

#[derive(Debug, Deserialize)]
struct SentMessage {
    role: String,
    content: SentContent,
}

/// Its content: a string, or parts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum SentContent {
    Text(String),
    Parts(Vec<SentPart>),
}

/// A part of a message; no other type than text is known here.
#[derive(Debug, Deserialize)]
struct SentPart {
    #[serde(rename = "type")]
    kind: PartKind,
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartKind {
    Text,
}

pub(super) fn read(mut fields: Fields, limits: &ServeLimits) -> Result<ClientRequest, ApiError> {
    let mut options = fields.options(limits)?;
    let most = limits.tokens.unwrap_or(usize::MAX);
    let [old, new] = ["max_tokens", "max_completion_tokens"].map(|name| fields.count(name, most));
    options.max_tokens = new?.or(old?);
    let top = fields.logprobs("top_logprobs", limits)?;
    if fields.flag("logprobs")? {
        options.logprobs = Some(top.unwrap_or_default());
    } else if let Some(top) = top {
        return Err(refused("top_logprobs", &top.into(), "none without \"logprobs\": true"));
    }
    let allowed = "a list of up to 1024 messages with role and content, which is text";
    let sent = fields.take::<Value>("messages", allowed)?.unwrap_or_default();
    let messages = serde_json::from_value::<Vec<SentMessage>>(sent.clone());
    let messages = messages.map_err(|_| refused("messages", &sent, allowed))?;
    if messages.is_empty() || messages.len() > MOST_MESSAGES {
        return Err(refused("messages", &sent, allowed));
    }
    let messages = messages.into_iter().map(|SentMessage { role, content }| {
        let text = match content {
            SentContent::Text(text) => text,
            SentContent::Parts(parts) => parts.into_iter().map(SentPart::into_text).collect(),
        };
        ChatMessage::new(&role, &text)
    });
    let prompt = SentPrompt::Chat(messages.collect());
    ClientRequest::new(RequestKind::Chat, vec![prompt], options, fields)
}

impl SentPart {
    fn into_text(self) -> String {
        let PartKind::Text = self.kind;
        self.text
    }
}
