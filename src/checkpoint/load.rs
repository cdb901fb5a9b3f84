//! Loading a model from its source.

use std::path::Path;

#[cfg(feature = "harness")]
use super::ModelSummary;
use super::{gguf_model, heads, hf_model, layout};
use crate::core::error::Error;
use crate::engine::{HeadSettings, Settings, Source};
use crate::io::input::{is_shipped, read_text};
use crate::model::uncached::Uncached;
use crate::model::{Loaded, Role, ToyPair, zoo};

/// Loads a model from its source: `toy:NAME`, `toy:FILE.json`, a GGUF file, or a folder
/// in the Hugging Face layout.
///
/// # Errors
/// One sentence that names the file and value at fault.
pub fn load(source: impl Into<Source>, role: Role) -> Result<Loaded, Error> {
    let source = source.into();
    let loaded = load_cached(&source, role)?;
    Ok(match source.settings.without_cache {
        true => Loaded { model: Box::new(Uncached(loaded.model)), ..loaded },
        false => loaded,
    })
}

fn load_cached(source: &Source, role: Role) -> Result<Loaded, Error> {
    let path = &source.path;
    if let Some(name) = path.strip_prefix("toy:") {
        let Settings { engine: None, dtype: None, kv_cache_dtype: None, device: None, .. } =
            source.settings
        else {
            return Err(Error::setting(format!(
                "{path} is a toy model: leave out engine, dtype, kv_cache_dtype and device"
            )));
        };
        return load_toy(path, name, role);
    }
    if heads::is_head(path) {
        return Err(Error::setting(format!(
            "model {path}: this is a head, which computes nothing without a target: name it as a draft"
        )));
    }
    check_settings(source)?;
    match (is_file(path)?, role) {
        (true, _) => gguf_model::load(source),
        (false, Role::Target) => hf_model::load(source),
        (false, Role::Draft) => heads::in_parallel(source, hf_model::load(source)?),
    }
}

/// Refuses settings of heads. A draft model may have a number of rows that it drafts in one pass.
fn check_settings(source: &Source) -> Result<(), Error> {
    let others = HeadSettings { block: None, ..source.settings.head.clone() };
    if others == HeadSettings::default() {
        return Ok(());
    }
    Err(Error::setting(format!(
        "model {} is no head: leave out feedback, taps, first_row, causal, anchor_first and fault",
        source.path
    )))
}

/// Whether the model of a path is a GGUF file; otherwise it is a folder.
///
/// # Errors
/// If it is neither.
fn is_file(name: &str) -> Result<bool, Error> {
    let path = Path::new(name);
    let file = layout::is_gguf(name) && path.is_file();
    if !file && !is_shipped(path) {
        layout::check(name, path)?;
    }
    Ok(file)
}

fn load_toy(source: &str, name: &str, role: Role) -> Result<Loaded, Error> {
    let pair = if name.ends_with(".json") {
        ToyPair::from_json(name, &read_text(Path::new(name))?)?
    } else {
        zoo::toy(name)?
    };
    let model = match role {
        Role::Target => Box::new(pair.target(source)?),
        Role::Draft => pair.drafter(source)?,
    };
    Ok(Loaded { model, codec: pair.codec(role) })
}

/// Describes the model of a source, without reading weights.
///
/// # Errors
/// As [`load`], for what it has read.
#[cfg(feature = "harness")]
pub fn summarise(source: &Source) -> Result<ModelSummary, Error> {
    if source.path.starts_with("toy:") {
        return summary_of_toy(source);
    }
    if heads::is_head(&source.path) {
        return heads::summarise(&source.path);
    }
    let summarise =
        if is_file(&source.path)? { gguf_model::summarise } else { hf_model::summarise };
    summarise(Path::new(&source.path))
}

#[cfg(feature = "harness")]
fn summary_of_toy(source: &Source) -> Result<ModelSummary, Error> {
    let loaded = load(source.clone(), Role::Target)?;
    let info = loaded.model.info();
    Ok(ModelSummary {
        family: info.engine.to_owned(),
        parameters: info.parameters as u64,
        bytes: (info.parameters * size_of::<f64>()) as u64,
        dtype: info.dtype.to_owned(),
        vocab: info.vocab,
        tokenizer_sha256: info.tokenizer_sha256.clone(),
        hidden: info.hidden,
    })
}
