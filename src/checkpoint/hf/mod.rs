//! Models from a folder in the Hugging Face layout: `config.json`,
//! `tokenizer.json`, weights as safetensors, and `generation_config.json` if
//! there is one.

mod config;
mod files;
mod fused;
mod guard;
mod quantised;
mod stored;
mod tokenizer;
mod weights;

use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

pub(super) use self::config::Marks;
use self::config::read_config;
pub(super) use self::files::Text;
use self::quantised::Quantised;
pub(super) use self::tokenizer::{Dialect, HfTokenizer};
pub(super) use self::weights::Safetensors;
#[cfg(feature = "harness")]
pub(super) use self::weights::weight_files;
#[cfg(feature = "harness")]
use super::ModelSummary;
use super::build::Checkpoint;
use crate::core::error::Error;
use crate::engine::blocks::{RawRows, TensorKind};
use crate::engine::decoder::{Config, Tensors};
use crate::engine::{Dtype, Source};
use crate::io::input::is_there;
#[cfg(feature = "harness")]
use crate::model::HiddenStates;
use crate::model::Loaded;
use crate::model::toy::hex;

/// Loads the model in the folder of `source`.
///
/// Weights may be stored as f32, f16 or bf16, or quantised; their type in memory is a setting. No
/// memory is allocated based on a number in a file until the lengths of the weights'
/// files have confirmed that number.
pub(super) fn load(source: &Source) -> Result<Loaded, Error> {
    let Source { path, settings, .. } = source;
    let Headers { config, codec, folder } =
        Headers::read(Path::new(path), settings.special_tokens)?;
    let mut checkpoint = codec.checkpoint(source, config);
    checkpoint.notes.extend(folder.quantised.iter().flat_map(Quantised::notes));
    let model = checkpoint.build(settings, &folder)?;
    Ok(Loaded { model, codec: Arc::new(codec) })
}

/// Describes the model in a folder without reading its weights.
#[cfg(feature = "harness")]
pub(super) fn summarise(folder: &Path) -> Result<ModelSummary, Error> {
    let Headers { config, codec, folder } = Headers::read(folder, false)?;
    let tensors = folder.summary(&config);
    Ok(codec.summary(config, tensors))
}

/// A model of which everything but the weights has been read and checked.
struct Headers {
    config: Config,
    codec: HfTokenizer,
    folder: Folder,
}

impl Headers {
    fn read(folder: &Path, special_tokens: bool) -> Result<Self, Error> {
        let config_text = Text::read(folder.join("config.json"))?;
        let generation_file = folder.join("generation_config.json");
        // A dangling link counts as present; reading it then fails.
        let generation = is_there(&generation_file).then(|| Text::read(generation_file));
        let generation = generation.transpose()?;
        let (mut config, quantised, marks) = read_config(&config_text, generation.as_ref())?;
        let named = marks.named.clone();
        let tokenizer = Text::read(folder.join("tokenizer.json"))?;
        let codec = HfTokenizer::new(&tokenizer, config.vocab_rows, marks, special_tokens)?;
        let names = &config.names;
        let transposed = names.transposed.then(|| format!("{}.", names.layers));
        let weights = Safetensors::open(folder)?.with_transposed(transposed);
        let mut texts = Sha256::new();
        let files = [Some(config_text), Some(tokenizer), generation];
        for text in files.iter().flatten() {
            text.add_to(&mut texts);
        }
        // It ends completions, as the ids in the other files do.
        if let Some(name) = &named {
            texts.update(name);
        }
        let folder = Folder { texts, weights, quantised };
        // As in transformers 5, a head in the file counts, even if the configuration says otherwise.
        config.tied &= !folder.has(&config.head().0);
        for (tensor, shape) in config.tensors() {
            folder.check(&tensor, &shape)?;
        }
        Ok(Self { config, codec, folder })
    }
}

impl HfTokenizer {
    /// The checkpoint that `source` names, with this tokenizer.
    pub(super) fn checkpoint(&self, source: &Source, config: Config) -> Checkpoint {
        Checkpoint {
            name: source.path.clone(),
            revision: source.revision.clone(),
            vocab: self.vocab(),
            eos: self.ends().to_vec(),
            unused: self.unused(),
            notes: self.notes(),
            tokenizer_sha256: self.fingerprint(),
            config,
        }
    }

    /// Describes a model with this tokenizer and these tensors.
    #[cfg(feature = "harness")]
    pub(super) fn summary(&self, config: Config, tensors: ModelSummary) -> ModelSummary {
        let hidden = HiddenStates { layers: config.layers.len(), width: config.hidden };
        ModelSummary {
            family: config.model_type,
            vocab: self.vocab(),
            tokenizer_sha256: self.fingerprint(),
            hidden: Some(hidden),
            ..tensors
        }
    }
}

/// An open folder.
struct Folder {
    /// The hash of the other files.
    texts: Sha256,
    weights: Safetensors,
    /// How matrices are quantised, if they are.
    quantised: Option<Quantised>,
}

impl Folder {
    /// Whether there is a tensor of this name, or a quantised matrix.
    fn has(&self, name: &str) -> bool {
        let quantised = self.quantised.as_ref();
        quantised.is_some_and(|quantised| quantised.has(&self.weights, name))
            || self.weights.has(name)
    }

    /// Checks that it is there in this shape.
    fn check(&self, name: &str, shape: &[usize]) -> Result<(), Error> {
        let checked = |quantised: &Quantised| quantised.check(&self.weights, name, shape);
        match self.quantised.as_ref().map_or(Ok(false), checked)? {
            true => Ok(()),
            false => self.weights.check(name, shape),
        }
    }

    /// The blocks of a quantised matrix; none if it is not quantised.
    fn rows(&self, name: &str, shape: &[usize]) -> Result<Option<RawRows>, Error> {
        let rows = |quantised: &Quantised| quantised.rows(&self.weights, name, shape);
        self.quantised.as_ref().map_or(Ok(None), rows)
    }

    /// The tensors in a few numbers. Quantised matrices count as the weights that they stand for.
    #[cfg(feature = "harness")]
    fn summary(&self, config: &Config) -> ModelSummary {
        let stored = self.weights.summary();
        if self.quantised.is_none() {
            return stored;
        }
        let tensors = config.tensors().map(|(name, shape)| {
            let weights = shape.iter().map(|&n| n as u64).product();
            (self.kind(&name).name().to_owned(), weights)
        });
        ModelSummary { bytes: stored.bytes, ..ModelSummary::of_tensors(tensors) }
    }
}

impl Tensors for Folder {
    fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        match self.rows(name, shape)? {
            Some(rows) => Ok(rows.weights(shape[1])),
            None => self.weights.get(name, shape),
        }
    }

    fn kind(&self, name: &str) -> TensorKind {
        let quantised = self.quantised.as_ref();
        let kind = quantised.and_then(|quantised| quantised.kind(&self.weights, name));
        kind.unwrap_or_else(|| self.weights.kind(name))
    }

    fn raw(&self, name: &str, shape: &[usize]) -> Result<RawRows, Error> {
        match self.rows(name, shape)? {
            Some(rows) => Ok(rows),
            None => self.weights.raw(name, shape),
        }
    }

    fn default_dtype(&self) -> Dtype {
        if self.quantised.is_some() { Dtype::Stored } else { self.weights.dtype() }
    }

    fn sha256(&self) -> Result<String, Error> {
        let mut hash = self.texts.clone();
        self.weights.add_to(&mut hash)?;
        Ok(hex(&hash.finalize()))
    }
}
