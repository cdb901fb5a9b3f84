//! Error messages for models that are missing or incomplete.

use crate::core::error::Error;
use std::path::Path;

/// What a model must be.
const LAYOUT: &str = "a GGUF file or a folder in the Hugging Face layout (config.json, \
                      tokenizer.json, model.safetensors)";
/// The file of the weights, unless they are sharded.
const WEIGHTS: &str = "model.safetensors";
/// Hints for files that a folder may contain instead of a missing one: the missing
/// file, or "" for any; the end of the other file's name; the hint.
const INSTEAD: &[(&str, &str, &str)] = &[
    ("", ".gguf", "give the path of the GGUF file in it"),
    ("", "snapshots", "this is a download cache: give the folder below its snapshots/"),
    (
        "tokenizer.json",
        "tokenizer.model",
        "use transformers to save tokenizer.model as tokenizer.json",
    ),
    (WEIGHTS, ".bin", "use transformers to save the weights as safetensors"),
];

/// Whether this is the name of a GGUF file.
pub(super) fn is_gguf(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".gguf")
}

/// The error for a name that refers to no model.
pub(super) fn absent(name: &str) -> Error {
    let what = if is_gguf(name) {
        "no such file".to_owned()
    } else if is_on_hub(name) {
        format!(
            "no such folder, and models are not downloaded: if it is on the Hugging Face hub, run \
             `hf download {name} --local-dir DIR` and give DIR"
        )
    } else if name.contains("://") {
        format!("models are not downloaded; a model is {LAYOUT}")
    } else {
        "no such folder".to_owned()
    };
    Error::setting(format!("model {name}: {what}"))
}

/// Checks that `folder` holds the files of a model.
///
/// # Errors
/// If it does not; the sentence says what is missing and what to do.
pub(super) fn check(name: &str, folder: &Path) -> Result<(), Error> {
    let fail = |what: String| Err(Error::setting(format!("model {name}: {what}")));
    if !folder.exists() {
        return Err(absent(name));
    }
    if !folder.is_dir() {
        return fail(format!("neither a folder nor a .gguf file; a model is {LAYOUT}"));
    }
    let sharded = folder.join("model.safetensors.index.json").exists();
    let holds = |file: &str| folder.join(file).exists() || file == WEIGHTS && sharded;
    let missing = ["config.json", "tokenizer.json", WEIGHTS].into_iter().find(|file| !holds(file));
    let Some(missing) = missing else { return Ok(()) };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = files.map(|file| file.file_name()).collect::<Vec<_>>();
    let is_there = |end: &str| files.iter().any(|f| f.to_string_lossy().ends_with(end));
    let instead = INSTEAD.iter().find(|(want, end, _)| missing.contains(want) && is_there(end));
    let instead = instead.map_or_else(String::new, |(_, _, what)| format!(" ({what})"));
    fail(format!("the folder has no {missing}{instead}; a model is {LAYOUT}"))
}

/// Whether a name looks like `owner/model`.
fn is_on_hub(name: &str) -> bool {
    let plain = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    name.split_once('/').is_some_and(|(owner, model)| plain(owner) && plain(model))
}
