//! Rows of OpenAI's chat format: messages up to one of the user, which is answered. What
//! comes after that message, such as an answer for training, is left out.

use anyhow::{Context, Error, Result};
use serde_json::{Map, Value};

use super::fields::tools;
use super::{Asked, PromptFormat};
use crate::model::ChatMessage;

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "OpenAI",
    key: "messages",
    summary: "`messages` up to the user's last, and `tools`; earlier answers are taken as they are",
    context: &["tools"],
    read,
};

fn read(row: &Map<String, Value>) -> Result<Asked> {
    let mut opening = all(row, FORMAT.key)?;
    let last = opening.iter().rposition(|message| message.role == "user");
    let last = last.context("\"messages\" has no message of the role \"user\"")?;
    opening.truncate(last + 1);
    let turns = opening.pop().into_iter().map(|message| message.content().to_owned()).collect();
    Ok(Asked { opening, turns, tools: tools(row)?, ..Asked::default() })
}

/// The messages under a key.
pub(super) fn all(row: &Map<String, Value>, key: &str) -> Result<Vec<ChatMessage>> {
    ChatMessage::read_all(key, &row[key]).map_err(Error::msg)
}
