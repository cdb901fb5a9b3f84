//! Prompt files, as they come from the projects that publish them.
//!
//! A file holds one JSON object per line, a JSON list of objects, or (`.txt`, `.md`) one
//! plain text; all of these may be compressed with gzip. Each object is read by the first
//! format of [`FORMATS`] whose key it has.

mod alpaca;
mod fields;
mod file;
mod gsm8k;
mod human_eval;
mod lmsys;
mod messages;
mod plain;
mod share_gpt;
mod spec_bench;

use anyhow::{Result, bail};
use serde_json::{Map, Value};

pub use self::file::read;
use crate::model::ChatMessage;
use crate::registry::nearest;

/// What the model is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Unique within an experiment.
    pub id: String,
    /// The kind of text.
    pub category: String,
    /// What is asked, in how many turns.
    pub asked: Asked,
}

impl Question {
    /// One text.
    pub fn once(
        id: impl Into<String>,
        category: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self { id: id.into(), category: category.into(), asked: Asked::once(text) }
    }
}

/// The texts of a question.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// Messages before the first turn: of the system, or earlier turns with their answers.
    pub opening: Vec<ChatMessage>,
    /// The turns, never empty: texts of the user, each of which the model is to answer.
    pub turns: Vec<String>,
}

impl Asked {
    /// One text.
    pub fn once(text: impl Into<String>) -> Self {
        Self { opening: Vec::new(), turns: vec![text.into()] }
    }
}

/// The rows of a project.
#[derive(Debug, Clone, Copy)]
pub struct PromptFormat {
    /// Whose they are.
    pub name: &'static str,
    /// The key that marks them.
    pub key: &'static str,
    /// What is taken from them, in a few words.
    pub summary: &'static str,
    read: fn(&Map<String, Value>) -> Result<Asked>,
}

/// All formats; the first whose key a row has reads it.
pub const FORMATS: &[PromptFormat] = &[
    spec_bench::FORMAT,
    messages::FORMAT,
    share_gpt::FORMAT,
    lmsys::FORMAT,
    human_eval::FORMAT,
    plain::FORMAT,
    alpaca::FORMAT,
    gsm8k::FORMAT,
];

/// What a row asks.
fn asked(row: &Map<String, Value>) -> Result<Asked> {
    if let Some(format) = FORMATS.iter().find(|format| row.contains_key(format.key)) {
        return (format.read)(row);
    }
    let keys = FORMATS.iter().map(|format| format.key);
    let hint = row.keys().find_map(|key| nearest(key, keys.clone()).map(|near| (key, near)));
    let hint = hint.map_or_else(String::new, |(key, near)| {
        format!(" (did you mean \"{near}\" by \"{key}\"?)")
    });
    let others = FORMATS.iter().filter(|format| format.key != plain::FORMAT.key);
    let others = others.map(|format| format!("\"{}\" ({})", format.key, format.name));
    let others = others.collect::<Vec<_>>().join(", ");
    bail!("there is no \"prompt\"{hint}: write {{\"prompt\": …}}, or one of {others}");
}
