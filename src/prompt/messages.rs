//! Rows of OpenAI's chat format: messages up to one of the user, which is answered. What
//! comes after that message, such as an answer for training, is left out.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::fields::text;
use super::{Asked, PromptFormat};
use crate::model::ChatMessage;

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "OpenAI",
    key: "messages",
    summary: "`messages` up to the user's last; earlier answers are taken as they are",
    read,
};

fn read(row: &Map<String, Value>) -> Result<Asked> {
    let mut opening = all(row, FORMAT.key)?;
    let last = opening.iter().rposition(|message| message.role == "user");
    let last = last.context("\"messages\" has no message of the role \"user\"")?;
    opening.truncate(last + 1);
    let turns = opening.pop().into_iter().map(|message| message.content).collect();
    Ok(Asked { opening, turns })
}

/// The messages under a key.
pub(super) fn all(row: &Map<String, Value>, key: &str) -> Result<Vec<ChatMessage>> {
    let entries = row[key].as_array().with_context(|| format!("\"{key}\" is not a list"))?;
    let messages = entries
        .iter()
        .enumerate()
        .map(|(i, entry)| message(entry).with_context(|| format!("\"{key}\", number {}", i + 1)));
    messages.collect()
}

fn message(entry: &Value) -> Result<ChatMessage> {
    let entry = entry.as_object().context("not an object with \"role\" and \"content\"")?;
    let role = text(entry, "role")?;
    if role.is_empty() || !role.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        bail!("\"role\" = {role:?}: allowed are letters, digits and _");
    }
    Ok(ChatMessage { role, content: content(entry)? })
}

/// The content: a text, or a list of parts that are texts.
fn content(entry: &Map<String, Value>) -> Result<String> {
    let Some(Value::Array(parts)) = entry.get("content") else { return text(entry, "content") };
    let texts = parts.iter().map(|part| match part["type"].as_str() {
        Some("text") => part["text"].as_str().context("a part of \"content\" has no \"text\""),
        _ => bail!("a part of \"content\" is not of the type \"text\""),
    });
    texts.collect()
}
