//! Error messages for models that are missing or incomplete.

use crate::core::error::Error;
use crate::io::input::names_in;
use std::path::Path;

/// What a model must be.
const LAYOUT: &str = "a GGUF file or a folder in the Hugging Face layout (config.json, \
                      tokenizer.json or tokenizer.model, model.safetensors or pytorch_model.bin)";
/// Files with the weights, and with the list of the files that hold them; the first one that is
/// there counts.
pub(super) const WEIGHTS: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];
/// The files without which there is no model: of each list, the first one that is there counts.
pub(super) const NEEDED: [&[&str]; 3] =
    [&["config.json"], &["tokenizer.json", "tokenizer.model"], &WEIGHTS];
/// Hints for files that a folder may contain instead of a missing one: the missing
/// file, or "" for any; the end of the other file's name; the hint, in which DIR is the folder.
const INSTEAD: &[(&str, &str, &str)] = &[
    ("", ".gguf", "give the path of the GGUF file in it"),
    ("", "snapshots", "this is a download cache: give the folder below its snapshots/"),
    (
        "tokenizer.json",
        "tekken.json",
        "to make one of tekken.json, install transformers and mistral-common, and run python -c \
         \"from transformers.integrations.mistral import convert_tekken_tokenizer as c; \
         c('DIR/tekken.json').save_pretrained('DIR')\"",
    ),
    (
        "tokenizer.json",
        "merges.txt",
        "to make one of vocab.json and merges.txt, install transformers, and run python -c \
         \"from transformers import AutoTokenizer as T; \
         T.from_pretrained('DIR').backend_tokenizer.save('DIR/tokenizer.json')\"",
    ),
    ("model.safetensors", ".pth", "use transformers to convert weights in Meta's own layout"),
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
    let files = names_in(folder);
    let Some(missing) = missing(&files) else { return Ok(()) };
    fail(match instead(missing, &files, folder) {
        Some(what) => format!("the folder has no {missing}: {what}"),
        None => format!("the folder has no {missing}; a model is {LAYOUT}"),
    })
}

/// The first file that a folder with these files lacks.
pub(super) fn missing(files: &[String]) -> Option<&'static str> {
    let is_there = |needed: &str| files.iter().any(|file| file == needed);
    let lacks = |needed: &&&[&str]| !needed.iter().any(|file| is_there(file));
    NEEDED.iter().find(lacks).map(|needed| needed[0])
}

/// What to do about a missing file, given the files of `folder`; `None` if nothing is there that
/// could stand in for it.
pub(super) fn instead(missing: &str, files: &[String], folder: &Path) -> Option<String> {
    let is_there = |end: &str| files.iter().any(|file| file.ends_with(end));
    let found = INSTEAD.iter().find(|(want, end, _)| missing.contains(want) && is_there(end));
    found.map(|(_, _, what)| what.replace("DIR", &folder.to_string_lossy()))
}

/// Whether a name looks like `owner/model`.
fn is_on_hub(name: &str) -> bool {
    let plain = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    name.split_once('/').is_some_and(|(owner, model)| plain(owner) && plain(model))
}
