//! A compiled chat template.

use std::path::{Path, PathBuf};

use minijinja::value::Serde;
use minijinja::{Environment, Value};
use serde_json::Map;
use sha2::{Digest, Sha256};

use super::environment::{Refusal, environment, set_today};
use crate::error::Error;
use crate::model::date::ChatDate;
use crate::model::toy::hex;

/// The name of the one template of an environment.
const NAME: &str = "chat_template";

/// A chat template, ready to be rendered.
#[derive(Debug)]
pub struct ChatTemplate {
    /// The file that it comes from.
    file: PathBuf,
    environment: Environment<'static>,
    /// `bos_token` and the like.
    tokens: Map<String, serde_json::Value>,
    sha256: String,
}

impl ChatTemplate {
    /// Compiles a template that comes from `file`. `tokens` are the strings of the special
    /// tokens that it may name, such as `bos_token`.
    ///
    /// # Errors
    /// Names the file and the line that is no template.
    pub fn new(
        file: &Path,
        source: &str,
        tokens: Map<String, serde_json::Value>,
    ) -> Result<Self, Error> {
        let fail = |e: minijinja::Error| Error::file(file, sentence(&e));
        let mut compiled = environment().map_err(fail)?;
        compiled.add_template_owned(NAME, without_tracking(source)).map_err(fail)?;
        let sha256 = hex(&Sha256::digest(source));
        Ok(Self { file: file.to_owned(), environment: compiled, tokens, sha256 })
    }

    /// The file that it comes from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// SHA-256 of its source.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Renders the template with these values, to which the special tokens are added, on the
    /// day `today`.
    ///
    /// # Errors
    /// The sentence with which the template refuses the values, or what it does that Python
    /// would refuse or minijinja cannot do.
    pub fn render(
        &self,
        values: &Map<String, serde_json::Value>,
        today: Option<ChatDate>,
    ) -> Result<String, Error> {
        let mut all = self.tokens.clone();
        all.extend(values.clone());
        let mut environment = self.environment.clone();
        set_today(&mut environment, today);
        let template = environment.get_template(NAME);
        let text = template.and_then(|template| template.render(Value::from(Serde(&all))));
        text.map_err(|e| Error::file(&self.file, sentence(&e)))
    }
}

/// An error of the template in one sentence.
fn sentence(error: &minijinja::Error) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut deepest = error;
    while let Some(current) = cause {
        if let Some(Refusal(why)) = current.downcast_ref() {
            return format!("the chat template refuses the conversation: {}", why.trim());
        }
        deepest = current.downcast_ref().unwrap_or(deepest);
        cause = current.source();
    }
    let line = deepest.line().map_or_else(String::new, |line| format!(" in line {line}"));
    let what = match deepest.detail() {
        Some(detail) => detail.to_owned(),
        None => deepest.kind().to_string(),
    };
    format!("the chat template fails{line}: {what}")
}

/// The source with `{% generation %}` as `{% with %}`: `transformers` marks by it which
/// tokens the assistant wrote, and otherwise it only opens a scope.
fn without_tracking(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        text.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(end);
        let word = tag[2..].trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let plain = match word {
            "generation" => tag.replacen("generation", "with", 1),
            "endgeneration" => tag.replacen("endgeneration", "endwith", 1),
            _ => tag.to_owned(),
        };
        text.push_str(&plain);
        rest = after;
    }
    text + rest
}
