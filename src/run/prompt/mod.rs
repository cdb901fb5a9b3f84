//! Prompt files, as they come from the projects that publish them.
//!
//! A file holds one JSON object per line, a JSON list of objects, CSV, Parquet, or (`.txt`, `.md`)
//! one plain text; all of these may be compressed with gzip or Zstandard. Each row is read by the
//! first format of [`FORMATS`] whose key it has.

mod alpaca;
mod benchmarks;
mod fields;
mod file;
mod gsm8k;
mod human_eval;
mod lmsys;
mod messages;
mod open_orca;
mod parquet;
mod plain;
mod shapes;
mod share_gpt;
mod spec_bench;
mod template;
mod tokens;

use anyhow::{Result, bail};
use serde_json::{Map, Value};

pub use self::file::{read, read_by};
pub use self::template::PromptTemplate;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::registry::nearest;
use crate::model::ChatMessage;

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
    /// The turns: texts of the user, each of which the model is to answer.
    pub turns: Vec<String>,
    /// The tools that the model may call, as JSON schemas.
    pub tools: Vec<Value>,
    /// The prompt in tokens of the target; nothing else is then asked.
    pub tokens: Option<Vec<Token>>,
}

impl Asked {
    /// One text.
    pub fn once(text: impl Into<String>) -> Self {
        Self { turns: vec![text.into()], ..Self::default() }
    }

    /// Whether nobody asks anything.
    pub fn is_nothing(&self) -> bool {
        self.turns.is_empty() && self.tokens.is_none()
    }

    /// The tokens of the first turn without a conversation around it: as they are given, or as
    /// `encode` makes them of its text. The target's vocabulary has `vocab` tokens.
    ///
    /// # Errors
    /// If it cannot be encoded, a given token lies outside the vocabulary, or something belongs to
    /// the turn that only a conversation holds.
    pub fn encode_alone<E: From<Error>>(
        &self,
        vocab: usize,
        encode: impl FnOnce(&str) -> Result<Vec<Token>, E>,
    ) -> Result<Vec<Token>, E> {
        let Some(tokens) = &self.tokens else { return encode(self.alone()?) };
        match tokens.iter().find(|&&token| token as usize >= vocab) {
            Some(token) => Err(E::from(Error::input(format!(
                "token {token} lies outside the target's vocabulary of {vocab} tokens"
            )))),
            None => Ok(tokens.clone()),
        }
    }

    /// The first turn as a text without a conversation around it.
    fn alone(&self) -> Result<&str, Error> {
        let lost = match (self.opening.is_empty(), self.tools.is_empty()) {
            (true, true) => return Ok(self.turns.first().map_or("", String::as_str)),
            (false, _) => "messages before the prompt",
            (true, false) => "tools for the prompt",
        };
        Err(Error::setting(format!("there are {lost}: set chat = true, or use --chat")))
    }

    /// The messages up to the first turn. `system` is for conversations without a message of the
    /// system.
    ///
    /// # Errors
    /// If the prompt is given in tokens.
    pub fn messages(&self, system: Option<&str>) -> Result<Vec<ChatMessage>, Error> {
        if self.tokens.is_some() {
            return Err(Error::setting(
                "the prompt is a list of tokens, which no chat template writes: leave out chat",
            ));
        }
        let own = self.opening.iter().any(|message| message.role == "system");
        let system = system.filter(|_| !own).map(|text| ChatMessage::new("system", text));
        let first = self.turns.first().map(|text| ChatMessage::new("user", text));
        Ok(system.into_iter().chain(self.opening.iter().cloned()).chain(first).collect())
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
    /// Which of `CONTEXT` are taken, too.
    pub context: &'static [&'static str],
    read: fn(&Map<String, Value>) -> Result<Asked>,
}

/// All formats; the first whose key a row has reads it.
pub const FORMATS: &[PromptFormat] = &[
    spec_bench::SPEED_BENCH,
    spec_bench::FORMAT,
    messages::FORMAT,
    share_gpt::FORMAT,
    lmsys::FORMAT,
    human_eval::FORMAT,
    benchmarks::MBPP,
    benchmarks::LONG_BENCH,
    plain::FORMAT,
    alpaca::FORMAT,
    open_orca::FORMAT,
    gsm8k::FORMAT,
    benchmarks::MATH,
    benchmarks::SWE_BENCH,
    benchmarks::LIVE_CODE_BENCH,
    benchmarks::CNN_DAILY_MAIL,
    benchmarks::GPQA,
    benchmarks::AIPERF,
    tokens::VLLM,
    tokens::TRANSFORMERS,
    tokens::TAPE,
    tokens::TOKENS,
];

/// The keys under which rows of some format have what belongs to a prompt.
const CONTEXT: [&str; 9] = [
    "system",
    "system_prompt",
    "context",
    "input",
    "tools",
    "functions",
    "documents",
    "history",
    "reasoning_content",
];

/// What a row asks. The keys of what it has beyond that are added to `left_out`.
fn asked(row: &Map<String, Value>, left_out: &mut Vec<&'static str>) -> Result<Asked> {
    if let Some(format) = FORMATS.iter().find(|format| row.contains_key(format.key)) {
        let taken = |key: &&str| *key == format.key || format.context.contains(key);
        let empty = [Value::Null, "".into(), Value::Array(Vec::new())];
        let says = |key: &&str| row.get(*key).is_some_and(|value| !empty.contains(value));
        left_out.extend(CONTEXT.into_iter().filter(|key| !taken(key) && says(key)));
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
    bail!(
        "there is no \"prompt\"{hint}: write {{\"prompt\": …}}, or one of {others}, or name the column \
         by prompt_template = \"{{column}}\""
    );
}
