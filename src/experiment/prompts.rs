//! Prompt sets: JSON lines, `{id, category, prompt}` or Spec-Bench's
//! `{question_id, category, turns}` (of which the first turn is used).

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// One prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Unique within the experiment.
    pub id: String,
    /// What kind of text it is.
    pub category: String,
    /// The text to continue.
    pub text: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Row {
    Plain { id: String, category: String, prompt: String },
    SpecBench { question_id: serde_json::Value, category: String, turns: Vec<String> },
}

/// Reads a prompt set.
///
/// # Errors
/// One sentence that names the file and the line.
pub fn read(file: &Path) -> Result<Vec<Prompt>> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read prompts {}", file.display()))?;
    let mut prompts = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = || format!("{} line {}", file.display(), number + 1);
        let prompt = parse(line).with_context(place)?;
        prompts.push(prompt);
    }
    if prompts.is_empty() {
        bail!("{} holds no prompt", file.display());
    }
    Ok(prompts)
}

fn parse(line: &str) -> Result<Prompt> {
    let row = serde_json::from_str(line).map_err(|_| {
        anyhow::anyhow!(
            "neither {{\"id\", \"category\", \"prompt\"}} nor \
             {{\"question_id\", \"category\", \"turns\"}}"
        )
    })?;
    Ok(match row {
        Row::Plain { id, category, prompt } => Prompt { id, category, text: prompt },
        Row::SpecBench { question_id, category, turns } => Prompt {
            id: question_id.as_str().map_or_else(|| question_id.to_string(), str::to_owned),
            category,
            text: turns.into_iter().next().context("\"turns\" is empty")?,
        },
    })
}

/// Refuses two prompts with one id: their rows could not be told apart.
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

/// The first `per_category` prompts of each category, in order.
pub fn first_of_each(prompts: Vec<Prompt>, per_category: usize) -> Vec<Prompt> {
    let mut kept: Vec<Prompt> = Vec::new();
    for prompt in prompts {
        if kept.iter().filter(|p| p.category == prompt.category).count() < per_category {
            kept.push(prompt);
        }
    }
    kept
}

/// SHA-256 over ids and texts.
pub fn sha256(prompts: &[Prompt]) -> String {
    let mut hash = Sha256::new();
    for prompt in prompts {
        hash.update(prompt.id.as_bytes());
        hash.update([0]);
        hash.update(prompt.text.as_bytes());
        hash.update([0]);
    }
    crate::model::hex(&hash.finalize())
}
