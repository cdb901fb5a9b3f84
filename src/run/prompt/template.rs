//! Prompts of rows that no format reads: a text with the names of columns in braces.

use anyhow::{Result, bail};
use serde_json::{Map, Value};

/// A template such as `Summarize: {article}`. `{{` and `}}` are braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptTemplate(Vec<TemplatePart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Column(String),
}

impl PromptTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// If it names no column, or a brace has no counterpart.
    pub fn parse(template: &str) -> Result<Self> {
        let (mut parts, mut text) = (Vec::new(), String::new());
        let mut rest = template;
        while let Some(at) = rest.find(['{', '}']) {
            text += &rest[..at];
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                text += brace;
                rest = after;
                continue;
            }
            let name = after.split_once('}').filter(|(name, _)| brace == "{" && !name.is_empty());
            let Some((name, after)) = name.filter(|(name, _)| !name.contains('{')) else {
                bail!(
                    "prompt_template: \"{brace}\" has no counterpart: write {{column}}, or \
                     \"{brace}{brace}\" for the character"
                );
            };
            parts.extend((!text.is_empty()).then(|| TemplatePart::Text(std::mem::take(&mut text))));
            parts.push(TemplatePart::Column(name.to_owned()));
            rest = after;
        }
        text += rest;
        parts.extend((!text.is_empty()).then_some(TemplatePart::Text(text)));
        if !parts.iter().any(|part| matches!(part, TemplatePart::Column(_))) {
            bail!("prompt_template names no column: write one in braces, as {{question}}");
        }
        Ok(Self(parts))
    }

    /// The prompt of a row: columns are texts, numbers, or lists of texts, one per line.
    pub(super) fn fill(&self, row: &Map<String, Value>) -> Result<String> {
        let mut prompt = String::new();
        for part in &self.0 {
            match part {
                TemplatePart::Text(text) => prompt += text,
                TemplatePart::Column(name) => match row.get(name) {
                    Some(Value::String(text)) => prompt += text,
                    Some(Value::Number(number)) => prompt += &number.to_string(),
                    Some(Value::Array(lines)) if lines.iter().all(Value::is_string) => {
                        let lines = lines.iter().filter_map(Value::as_str).collect::<Vec<_>>();
                        prompt += &lines.join("\n");
                    }
                    Some(_) => {
                        bail!("\"{name}\" of prompt_template is neither a text nor a number")
                    }
                    None => {
                        let keys = row.keys().map(|key| format!("\"{key}\"")).collect::<Vec<_>>();
                        bail!(
                            "there is no \"{name}\" for prompt_template: the row has {}",
                            keys.join(", ")
                        );
                    }
                },
            }
        }
        Ok(prompt)
    }
}
