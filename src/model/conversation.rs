//! Conversations: what a chat template turns into a prompt.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::date::ChatDate;

/// The key of what a message says.
const CONTENT: &str = "content";
/// Fields that a message may have in the place of a content.
const INSTEAD: [&str; 3] = ["tool_calls", "function_call", "reasoning_content"];

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who wrote it: `system`, `user`, `assistant` or another name that the model's template
    /// knows.
    pub role: String,
    /// Its other fields as the template reads them: `content`, `tool_calls`,
    /// `reasoning_content` and others.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl ChatMessage {
    /// A message of a role.
    pub fn new(role: &str, content: impl Into<String>) -> Self {
        let content = (CONTENT.to_owned(), Value::String(content.into()));
        Self { role: role.to_owned(), fields: Map::from_iter([content]) }
    }

    /// Its text; empty if it only calls tools.
    pub fn content(&self) -> &str {
        self.fields.get(CONTENT).and_then(Value::as_str).unwrap_or_default()
    }

    /// Reads a message of OpenAI's chat format. Parts of a content that are texts become one text;
    /// fields that are null count as absent, except the content of a message that calls tools.
    ///
    /// # Errors
    /// A sentence that names the field and what is allowed.
    pub fn read(entry: &Value) -> Result<Self, String> {
        let entry = entry.as_object().ok_or("not an object with \"role\" and \"content\"")?;
        let role = match entry.get("role") {
            Some(Value::String(role)) => role.clone(),
            Some(_) => return Err("\"role\" is not a text".to_owned()),
            None => return Err("there is no \"role\"".to_owned()),
        };
        if role.is_empty() || !role.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(format!("\"role\" = {role:?}: allowed are letters, digits and _"));
        }
        let mut fields = entry.clone();
        fields.retain(|key, value| key != "role" && (key == CONTENT || !value.is_null()));
        match fields.get(CONTENT) {
            Some(Value::String(_)) => {}
            Some(Value::Array(parts)) => {
                let text = parts.iter().map(part).collect::<Result<String, _>>()?;
                fields.insert(CONTENT.to_owned(), text.into());
            }
            None | Some(Value::Null) if INSTEAD.iter().any(|key| fields.contains_key(*key)) => {}
            None => return Err("there is no \"content\"".to_owned()),
            Some(_) => return Err("\"content\" is not a text".to_owned()),
        }
        Ok(Self { role, fields })
    }

    /// Reads a list of messages; `key` names it.
    ///
    /// # Errors
    /// As [`Self::read`], with the number of the message.
    pub fn read_all(key: &str, list: &Value) -> Result<Vec<Self>, String> {
        let entries = list.as_array().ok_or_else(|| format!("\"{key}\" is not a list"))?;
        let messages = (1..).zip(entries).map(|(number, entry)| {
            Self::read(entry).map_err(|why| format!("\"{key}\", number {number}: {why}"))
        });
        messages.collect()
    }
}

/// The text of a part of a content.
fn part(part: &Value) -> Result<&str, String> {
    match part["type"].as_str() {
        Some("text") => part["text"].as_str().ok_or("a part of \"content\" has no \"text\"".into()),
        _ => Err("a part of \"content\" is not of the type \"text\"".to_owned()),
    }
}

/// Messages that the model is to answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conversation {
    /// The messages in order.
    pub messages: Vec<ChatMessage>,
    /// The tools that the model may call, as JSON schemas.
    pub tools: Vec<Value>,
    /// Further arguments of the template, such as `enable_thinking`.
    pub arguments: Map<String, Value>,
    /// The date for a template that asks for one.
    pub today: Option<ChatDate>,
}

/// Reads the tools of a request or of a row: a list of objects, or its JSON as a text, as
/// datasets keep it.
///
/// # Errors
/// If it is something else.
pub fn read_tools(value: Option<&Value>) -> Result<Vec<Value>, String> {
    let fail = || "\"tools\" is not a list of objects".to_owned();
    let list = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(Vec::new()),
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| fail())?,
        Some(value) => value.clone(),
    };
    match list {
        Value::Array(tools) if tools.iter().all(Value::is_object) => Ok(tools),
        _ => Err(fail()),
    }
}
