//! Models from a folder in the Hugging Face layout: `config.json`,
//! `tokenizer.json`, weights as safetensors, and `generation_config.json` if
//! there is one.

mod config;
mod files;
mod guard;
mod tokenizer;
mod weights;

use std::path::Path;

use sha2::{Digest, Sha256};

use self::config::read_config;
use self::files::Text;
use self::tokenizer::HfTokenizer;
use self::weights::Safetensors;
use super::checkpoint::Checkpoint;
use super::llama::Tensors;
use super::toy::hex;
use super::{Loaded, Settings};
use crate::error::Error;

/// Loads the model in `folder` and calls it `name`.
///
/// Weights may be stored as f32, f16 or bf16; their type in memory is a setting. No
/// memory is allocated based on a number in a file until the lengths of the weights'
/// files have confirmed that number.
///
/// # Errors
/// One sentence that names the file and value at fault.
pub(super) fn load(name: &str, folder: &Path, settings: &Settings) -> Result<Loaded, Error> {
    let config_text = Text::read(folder.join("config.json"))?;
    let generation_file = folder.join("generation_config.json");
    // A dangling link counts as present; reading it then fails.
    let generation = generation_file.symlink_metadata().is_ok();
    let generation = generation.then(|| Text::read(generation_file)).transpose()?;
    let (config, marks) = read_config(&config_text, generation.as_ref())?;
    let tokenizer = Text::read(folder.join("tokenizer.json"))?;
    let codec = HfTokenizer::new(&tokenizer, config.vocab_rows, marks, settings.special_tokens)?;
    let weights = Safetensors::open(folder)?;
    config.tensors().try_for_each(|(tensor, shape)| weights.check(&tensor, &shape))?;
    let mut texts = Sha256::new();
    let files = [Some(config_text), Some(tokenizer), generation];
    files.iter().flatten().for_each(|text| text.add_to(&mut texts));
    let checkpoint = Checkpoint {
        name: name.to_owned(),
        vocab: codec.vocab(),
        eos: codec.ends().to_vec(),
        unused: codec.unused(),
        tokenizer_sha256: codec.fingerprint(),
        config,
    };
    let model = checkpoint.build(settings, &Folder { texts, weights })?;
    Ok(Loaded { model, codec: Box::new(codec) })
}

/// An open folder.
struct Folder {
    /// The hash of the other files.
    texts: Sha256,
    weights: Safetensors,
}

impl Tensors for Folder {
    fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        self.weights.get(name, shape)
    }

    fn sha256(&self) -> Result<String, Error> {
        let mut hash = self.texts.clone();
        self.weights.add_to(&mut hash)?;
        Ok(hex(&hash.finalize()))
    }
}
