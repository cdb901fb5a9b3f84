//! Models from a folder in the Hugging Face layout: `config.json`, `tokenizer.json` or else
//! `tokenizer.model`, weights as safetensors or else as `torch.save` writes them, and
//! `generation_config.json` if there is one.

use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

#[cfg(feature = "harness")]
use super::ModelSummary;
use super::hf::{HfTokenizer, Marks, Quantised, Text, Weights, read_config};
use super::sentence_piece;
use crate::core::error::Error;
use crate::engine::blocks::{RawRows, SomeRows, TensorKind};
use crate::engine::decoder::{Config, Tensors};
use crate::engine::{Dtype, Source};
use crate::io::input::is_there;
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
        let (codec, of_tokenizer) = tokenizer(folder, config.vocab_rows, marks, special_tokens)?;
        let names = &config.names;
        let transposed = names.transposed.then(|| format!("{}.", names.layers));
        let weights = Weights::open(folder)?.with_transposed(transposed);
        let mut texts = Sha256::new();
        for text in [&config_text].into_iter().chain(&of_tokenizer).chain(&generation) {
            text.add_to(&mut texts);
        }
        // It ends completions, as the ids in the other files do.
        if let Some(name) = &named {
            texts.update(name);
        }
        let mut folder = Folder { texts, weights, quantised, dtype: Dtype::Stored };
        // As in transformers 5, a head in the file counts, even if the configuration says otherwise.
        let [(head, _), (embedding, _)] = [config.head(), config.embedding()];
        config.tied &= !folder.has(&head) || folder.weights.are_one([&head, &embedding]);
        for (tensor, shape) in config.tensors() {
            folder.check(&tensor, &shape)?;
        }
        folder.dtype = folder.dtype_of(&config);
        Ok(Self { config, codec, folder })
    }
}

/// The tokenizer of a folder, and the files that it is made of.
fn tokenizer(
    folder: &Path,
    rows: usize,
    marks: Marks,
    special_tokens: bool,
) -> Result<(HfTokenizer, Vec<Text>), Error> {
    let file = folder.join("tokenizer.json");
    if !is_there(&file) && is_there(&folder.join(sentence_piece::FILE)) {
        return sentence_piece::read(folder, rows, marks, special_tokens);
    }
    let text = Text::read(file)?;
    Ok((HfTokenizer::new(&text, rows, marks, special_tokens)?, vec![text]))
}

/// An open folder.
struct Folder {
    /// The hash of the other files.
    texts: Sha256,
    weights: Weights,
    /// How matrices are quantised, if they are.
    quantised: Option<Quantised>,
    /// The type of all matrices; `Stored` if they have several, or are stored in blocks.
    dtype: Dtype,
}

impl Folder {
    /// See [`Self::dtype`]. Tensors that the model has not, such as masks, do not count.
    fn dtype_of(&self, config: &Config) -> Dtype {
        let matrices = config.tensors().filter(|(_, shape)| shape.len() > 1);
        let mut types = matrices.map(|(name, _)| match self.kind(&name) {
            TensorKind::F32 => Dtype::F32,
            TensorKind::F16 => Dtype::F16,
            TensorKind::Bf16 => Dtype::Bf16,
            _ => Dtype::Stored,
        });
        let first = types.next().unwrap_or_default();
        if types.all(|one| one == first) { first } else { Dtype::Stored }
    }

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

    fn visit(
        &self,
        name: &str,
        shape: &[usize],
        each: &mut dyn FnMut(SomeRows<'_>),
    ) -> Result<(), Error> {
        match self.rows(name, shape)? {
            Some(rows) => {
                each(SomeRows::Numbers(&rows.weights(shape[1])));
                Ok(())
            }
            None => self.weights.visit(name, shape, each),
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
        self.dtype
    }

    fn sha256(&self) -> Result<String, Error> {
        let mut hash = self.texts.clone();
        self.weights.add_to(&mut hash)?;
        Ok(hex(&hash.finalize()))
    }
}
