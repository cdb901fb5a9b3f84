//! Prompt sets: JSON lines, either `{"prompt": …}` with an optional `id` and `category`,
//! or Spec-Bench's `{question_id, category, turns}`, whose first turn is used.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::distribution::Token;
use crate::input::read_text;
use crate::registry::nearest;

/// One prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Unique within the experiment.
    pub id: String,
    /// The kind of text.
    pub category: String,
    /// The text to continue.
    pub text: String,
}

/// The keys of a line: our name, then Spec-Bench's.
const ID: [&str; 2] = ["id", "question_id"];
const CATEGORY: &str = "category";
const TEXT: [&str; 2] = ["prompt", "turns"];

/// The longest allowed id or category in characters; both appear in every row.
const MOST_CHARACTERS: usize = 200;

/// Reads a prompt set. A prompt without an id is named after file and line; one without a
/// category gets the file's name as its category.
///
/// # Errors
/// Names the file and the line.
pub fn read(file: &Path) -> Result<Vec<Prompt>> {
    let text = read_text(file).context("cannot read prompts")?;
    let set = file.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let prompts = lines.map(|(i, line)| {
        let number = i + 1;
        parse(line, &set, number).with_context(|| format!("{} line {number}", file.display()))
    });
    let prompts = prompts.collect::<Result<Vec<_>>>()?;
    if prompts.is_empty() {
        bail!("{} holds no prompt", file.display());
    }
    Ok(prompts)
}

fn parse(line: &str, set: &str, number: usize) -> Result<Prompt> {
    let row: Value = serde_json::from_str(line).map_err(|error| {
        anyhow!("not JSON at column {}: every line is an object, {{\"prompt\": …}}", error.column())
    })?;
    let Value::Object(row) = row else {
        bail!("not an object: write {{\"prompt\": …}}");
    };
    let own = (ID[0], &Value::String(format!("{set}-{number}")));
    let (key, id) = ID.iter().find_map(|key| Some((*key, row.get(*key)?))).unwrap_or(own);
    let category = row.get(CATEGORY).cloned().unwrap_or_else(|| set.into());
    let (id, category) = (name(key, id)?, name(CATEGORY, &category)?);
    Ok(Prompt { id, category, text: text(&row)? })
}

/// An id or a category: a text of one line, or an integer.
fn name(key: &str, value: &Value) -> Result<String> {
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

/// The text to continue.
fn text(row: &Map<String, Value>) -> Result<String> {
    let Some((key, value)) = TEXT.iter().find_map(|key| Some((*key, row.get(*key)?))) else {
        let hint = row.keys().find_map(|key| nearest(key, TEXT).map(|near| (key, near)));
        let hint = hint.map_or_else(String::new, |(key, near)| {
            format!(" (did you mean \"{near}\" by \"{key}\"?)")
        });
        bail!("there is no \"prompt\"{hint}: write {{\"prompt\": …}}, or Spec-Bench's \"turns\"");
    };
    let first = value.as_array().map_or(Some(value), |turns| turns.first());
    match first.and_then(Value::as_str) {
        Some(text) if value.is_array() == (key == TEXT[1]) => Ok(text.to_owned()),
        _ if key == TEXT[1] => bail!("\"turns\" is not a list that begins with a text"),
        _ => bail!("\"prompt\" is not a text"),
    }
}

/// Refuses two prompts with the same id, whose rows could not be told apart.
///
/// # Errors
/// Names the id.
pub fn check_unique(prompts: &[Prompt]) -> Result<()> {
    let mut ids = prompts.iter().map(|p| &p.id).collect::<Vec<_>>();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => bail!("two prompts have the id \"{}\": ids must be unique", pair[0]),
        None => Ok(()),
    }
}

/// SHA-256 over everything in the prompts that can change tokens or the grouping of rows:
/// ids, categories, texts and their tokens. Each part is preceded by its length, so that
/// the parts cannot be split in another way.
pub fn sha256(prompts: &[Prompt], tokens: &[Vec<Token>]) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for (Prompt { id, category, text }, tokens) in prompts.iter().zip(tokens) {
        part(id.as_bytes());
        part(category.as_bytes());
        part(text.as_bytes());
        part(&tokens.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<_>>());
    }
    crate::model::hex(&hash.finalize())
}
