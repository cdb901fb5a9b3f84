//! Conversations: what a chat template turns into a prompt.

use serde::{Deserialize, Serialize};

use super::date::ChatDate;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who wrote it: `system`, `user`, `assistant` or another name that the model's template
    /// knows.
    pub role: String,
    /// Its text.
    pub content: String,
}

impl ChatMessage {
    /// A message of a role.
    pub fn new(role: &str, content: impl Into<String>) -> Self {
        Self { role: role.to_owned(), content: content.into() }
    }
}

/// Messages that the model is to answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conversation {
    /// The messages in order.
    pub messages: Vec<ChatMessage>,
    /// The date for a template that asks for one.
    pub today: Option<ChatDate>,
}
