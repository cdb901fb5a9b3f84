//! Values of rows.

use anyhow::{Context, Error, Result, bail};
use serde_json::{Map, Value};

use crate::model::{ChatMessage, read_tools};

/// The longest allowed id or category in characters; both appear in every row.
const MOST_CHARACTERS: usize = 200;

/// A text that a row must have.
pub(super) fn text(row: &Map<String, Value>, key: &str) -> Result<String> {
    match row.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => bail!("\"{key}\" is not a text"),
        None => bail!("there is no \"{key}\""),
    }
}

/// A text that a row may have; empty if it has none.
pub(super) fn optional(row: &Map<String, Value>, key: &str) -> Result<String> {
    if row.get(key).is_none_or(Value::is_null) { Ok(String::new()) } else { text(row, key) }
}

/// A list of at least one text. Those of AIPerf are objects with a text.
pub(super) fn texts(row: &Map<String, Value>, key: &str) -> Result<Vec<String>> {
    let list = row.get(key).and_then(Value::as_array).filter(|list| !list.is_empty());
    let texts = list.and_then(|list| {
        let text = |entry: &Value| entry.get("text").unwrap_or(entry).as_str().map(str::to_owned);
        list.iter().map(text).collect::<Option<Vec<_>>>()
    });
    texts.with_context(|| format!("\"{key}\" is not a list of at least one text"))
}

/// The tools of a row.
pub(super) fn tools(row: &Map<String, Value>) -> Result<Vec<Value>> {
    read_tools(row.get("tools")).map_err(Error::msg)
}

/// The message of the system under a key, if it says anything.
pub(super) fn system(row: &Map<String, Value>, key: &str) -> Result<Vec<ChatMessage>> {
    let text = optional(row, key)?;
    Ok((!text.is_empty()).then(|| ChatMessage::new("system", text)).into_iter().collect())
}

/// An id or a category: a text of one line, or an integer.
pub(super) fn name(key: &str, value: &Value) -> Result<String> {
    let name = match value {
        Value::String(name) => name.clone(),
        Value::Number(n) if n.is_i64() || n.is_u64() => n.to_string(),
        _ => bail!("\"{key}\" = {value}: allowed is a text or an integer"),
    };
    if name.is_empty() || name.contains(['\n', '\r']) || name.chars().count() > MOST_CHARACTERS {
        bail!("\"{key}\" = {value}: allowed are 1 to {MOST_CHARACTERS} characters on one line");
    }
    Ok(name)
}
