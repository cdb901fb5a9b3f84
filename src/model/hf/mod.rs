//! Models from a folder in the Hugging Face layout: `config.json`,
//! `tokenizer.json`, weights as safetensors, and `generation_config.json` if
//! there is one.

mod config;
mod tokenizer;
mod weights;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use self::config::{fault, read_config, read_generation_eos};
use self::tokenizer::HfTokenizer;
use self::weights::Weights;
use super::llama::Checkpoint;
use super::toy::hex;
use super::{Loaded, ModelError, Settings};

/// Loads the model in `folder` and calls it `name`.
///
/// Weights may be stored as f32, f16 or bf16; how they are held in memory is a
/// setting.
///
/// # Errors
/// One sentence that names the file and value at fault.
pub(super) fn load(name: &str, folder: &Path, settings: &Settings) -> Result<Loaded, ModelError> {
    let config_file = folder.join("config.json");
    let generation_file = folder.join("generation_config.json");
    let tokenizer_file = folder.join("tokenizer.json");
    let (config, config_eos) = read_config(&config_file)?;
    let generation_eos = read_generation_eos(&generation_file)?;
    let codec = HfTokenizer::read(&tokenizer_file)?;
    let vocab = codec.vocab();
    if vocab > config.vocab_rows {
        let rows = config.vocab_rows;
        return Err(fault(
            &tokenizer_file,
            format!("{vocab} tokens do not fit the vocab_size {rows} of config.json"),
        ));
    }
    let weights = Weights::open(folder)?;
    let mut eos = generation_eos.unwrap_or(config_eos);
    // Some checkpoints name padding rows here; those never come out.
    eos.retain(|&token| (token as usize) < vocab);
    let mut files = vec![config_file, tokenizer_file];
    files.extend(generation_file.exists().then_some(generation_file));
    files.extend(weights.files().map(PathBuf::from));
    let checkpoint = Checkpoint {
        name: name.to_owned(),
        vocab,
        eos,
        unused: codec.unused(),
        sha256: checksum(&files)?,
        tokenizer_sha256: codec.fingerprint(),
        config,
    };
    let get = |tensor: &str, shape: &[usize]| weights.get(tensor, shape);
    Ok(Loaded { model: checkpoint.build(settings, &get)?, codec: Box::new(codec) })
}

/// SHA-256 over names and contents of files; where they lie plays no part.
fn checksum(files: &[PathBuf]) -> Result<String, ModelError> {
    let mut hash = Sha256::new();
    for file in files {
        add_file(&mut hash, file)
            .map_err(|e| ModelError::new(format!("cannot read {}: {e}", file.display())))?;
    }
    Ok(hex(&hash.finalize()))
}

fn add_file(hash: &mut Sha256, file: &Path) -> io::Result<()> {
    let mut reader = File::open(file)?;
    hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
    hash.update(reader.metadata()?.len().to_le_bytes());
    let mut buffer = vec![0; 1 << 20];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(()),
            n => hash.update(&buffer[..n]),
        }
    }
}
