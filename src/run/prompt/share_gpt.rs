//! ShareGPT: conversations of people with a model. The turns are those of the person; the
//! answers, which are another model's, are left out.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::fields::{system, text, tools};
use super::{Asked, PromptFormat};
use crate::model::ChatMessage;

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "ShareGPT",
    key: "conversations",
    summary: "what `human` says in `conversations`, one turn after the other, with `system` and `tools`",
    context: &["system", "tools"],
    read,
};

fn read(row: &Map<String, Value>) -> Result<Asked> {
    let entries = row["conversations"].as_array().context("\"conversations\" is not a list")?;
    let mut asked =
        Asked { opening: system(row, "system")?, tools: tools(row)?, ..Asked::default() };
    for (i, entry) in entries.iter().enumerate() {
        add(entry, &mut asked).with_context(|| format!("\"conversations\", number {}", i + 1))?;
    }
    Ok(asked)
}

fn add(entry: &Value, asked: &mut Asked) -> Result<()> {
    let entry = entry.as_object().context("not an object with \"from\" and \"value\"")?;
    match text(entry, "from")?.as_str() {
        "human" | "user" => asked.turns.push(text(entry, "value")?),
        "system" => asked.opening.push(ChatMessage::new("system", text(entry, "value")?)),
        "gpt" | "chatgpt" | "bing" | "bard" | "assistant" => {}
        other => bail!("\"from\" = {other:?}: allowed are human, user, gpt, assistant, system"),
    }
    Ok(())
}
