//! Where a model's chat template comes from. It is read when a conversation needs it, so that
//! a broken template does not keep a model from continuing plain texts.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::template::ChatTemplate;
use crate::core::error::Error;
use crate::io::input::{foreign, is_there, read_text};

/// Files of a Hugging Face folder.
const TEMPLATE_FILE: &str = "chat_template.jinja";
/// Where older processors of images and texts keep it.
const TEMPLATE_JSON: &str = "chat_template.json";
/// The key of the template in a JSON file.
const TEMPLATE: &str = "chat_template";
const CONFIG: &str = "tokenizer_config.json";
const TOKENS: &str = "special_tokens_map.json";

/// The name of the template that is taken if there are several.
const DEFAULT: &str = "default";

/// Where a template comes from.
#[derive(Debug, Clone)]
pub(crate) enum TemplateSource {
    /// A folder in the Hugging Face layout: `chat_template.jinja`, or `chat_template` in
    /// `tokenizer_config.json` or `chat_template.json`.
    Folder(PathBuf),
    /// A file that holds one template, if it holds any, and names its special tokens.
    File {
        /// The file.
        file: PathBuf,
        /// The source of the template.
        template: Option<String>,
        /// `bos_token` and the like.
        tokens: Map<String, Value>,
    },
}

impl TemplateSource {
    /// Reads and compiles the template.
    ///
    /// # Errors
    /// If there is none, or names the file that is damaged.
    pub(crate) fn read(&self) -> Result<ChatTemplate, Error> {
        match self {
            Self::Folder(folder) => of_folder(folder),
            Self::File { file, template: Some(template), tokens } => {
                ChatTemplate::new(file, template, tokens.clone())
            }
            Self::File { file, .. } => Err(none(file, "its key tokenizer.chat_template")),
        }
    }
}

fn none(place: &Path, missing: &str) -> Error {
    let what = format!("there is no chat template ({missing} is missing): leave out chat");
    Error::file(place, what)
}

fn of_folder(folder: &Path) -> Result<ChatTemplate, Error> {
    let tokens = special_tokens(folder)?;
    let file = folder.join(TEMPLATE_FILE);
    if is_there(&file) {
        return ChatTemplate::new(&file, &read_text(&file)?, tokens);
    }
    for file in [CONFIG, TEMPLATE_JSON].map(|name| folder.join(name)) {
        let config = object(&file)?;
        let chosen = config.get(TEMPLATE).map(chosen).transpose();
        if let Some(template) = chosen.map_err(|why| Error::file(&file, why))?.flatten() {
            return ChatTemplate::new(&file, template, tokens);
        }
    }
    let missing = format!("{TEMPLATE_FILE}, or {TEMPLATE} in {CONFIG} or {TEMPLATE_JSON},");
    Err(none(folder, &missing))
}

/// The strings of the special tokens of a folder in the Hugging Face layout, by their keys.
fn special_tokens(folder: &Path) -> Result<Map<String, Value>, Error> {
    let mut tokens = strings_of_tokens(object(&folder.join(TOKENS))?);
    tokens.extend(strings_of_tokens(object(&folder.join(CONFIG))?));
    Ok(tokens)
}

/// The name of the token that ends a text by the tokenizer of a folder.
///
/// # Errors
/// If a file is damaged.
pub(crate) fn eos_token(folder: &Path) -> Result<Option<String>, Error> {
    Ok(special_tokens(folder)?.get("eos_token").and_then(Value::as_str).map(str::to_owned))
}

/// A file that holds a JSON object; an empty one if there is no such file.
fn object(file: &Path) -> Result<Map<String, Value>, Error> {
    if !is_there(file) {
        return Ok(Map::new());
    }
    let text = read_text(file)?;
    serde_json::from_str(&text).map_err(|error| {
        Error::file(file, foreign(text.as_bytes()).unwrap_or_else(|| error.to_string()))
    })
}

/// The strings of special tokens: those of keys such as `bos_token`, whose values are strings
/// or objects with the string as `content`.
pub(crate) fn strings_of_tokens(config: Map<String, Value>) -> Map<String, Value> {
    let tokens = config.into_iter().filter(|(key, _)| key.ends_with("_token"));
    let string = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Object(token) => token.get("content")?.as_str().map(str::to_owned),
        _ => None,
    };
    tokens.filter_map(|(key, value)| Some((key, string(value)?.into()))).collect()
}

/// The template that the key `chat_template` gives: a string, or one of several with names.
fn chosen(value: &Value) -> Result<Option<&str>, String> {
    let named = |entry: &Value| {
        let part = |key| entry.get(key).and_then(Value::as_str);
        part("name").zip(part("template")).is_some()
    };
    match value {
        Value::Null => Ok(None),
        Value::String(template) => Ok(Some(template)),
        Value::Array(entries) if entries.iter().all(named) => {
            let found = entries.iter().find(|entry| entry["name"] == DEFAULT);
            let names = entries.iter().map(|entry| entry["name"].to_string());
            let names = names.collect::<Vec<_>>().join(", ");
            let none =
                || format!("chat_template has no template called \"{DEFAULT}\", only [{names}]");
            Ok(Some(found.and_then(|entry| entry["template"].as_str()).ok_or_else(none)?))
        }
        _ => Err("chat_template is neither a text nor a list of {name, template}".to_owned()),
    }
}
