//! Loading a model from its source.

use std::path::Path;

use super::{Codec, LanguageModel, Letters, Settings, Source, ToyPair, hf, layout, zoo};
use crate::error::Error;
use crate::input::read_text;

/// The role of a model; a toy pair contains both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The target, whose distribution the output must have.
    Target,
    /// The draft model, which proposes tokens.
    Draft,
}

/// A model with its text codec.
#[derive(Debug)]
pub struct Loaded {
    /// The model.
    pub model: Box<dyn LanguageModel>,
    /// Its tokenizer.
    pub codec: Box<dyn Codec>,
}

/// Loads a model from its source: `toy:NAME`, `toy:FILE.json`, or a folder in
/// the Hugging Face layout.
///
/// # Errors
/// One sentence that names the file and value at fault.
pub fn load(source: impl Into<Source>, role: Role) -> Result<Loaded, Error> {
    let Source { path, settings } = source.into();
    if let Some(name) = path.strip_prefix("toy:") {
        let Settings { engine: None, dtype: None, device: None, .. } = settings else {
            return Err(Error::setting(format!(
                "{path} is a toy model: leave out engine, dtype and device"
            )));
        };
        return load_toy(&path, name, role);
    }
    let folder = Path::new(&path);
    layout::check(&path, folder)?;
    hf::load(&path, folder, &settings)
}

fn load_toy(source: &str, name: &str, role: Role) -> Result<Loaded, Error> {
    let pair = if name.ends_with(".json") {
        ToyPair::from_json(name, &read_text(Path::new(name))?)?
    } else {
        zoo::toy(name)?
    };
    let model = match role {
        Role::Target => pair.target(source)?,
        Role::Draft => pair.draft(source)?,
    };
    Ok(Loaded { model: Box::new(model), codec: Box::new(Letters { vocab: pair.vocab }) })
}
