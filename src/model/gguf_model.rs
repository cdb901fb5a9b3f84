//! A model in a GGUF file: its decoder, its tokenizer and its weights.
//!
//! The native engine keeps the blocks of a file unless another dtype is asked for; then they
//! become f32 weights first, as for the candle engine. With f32, the logits are those of the
//! file's own weights.

use std::path::Path;

use super::checkpoint::Checkpoint;
use super::decoder::Config;
use super::families::{self, ConfigKeys};
use super::ggml_vocabulary::GgmlVocabulary;
use super::gguf::GgufCheckpoint;
use super::hf::HfTokenizer;
use super::{Loaded, Source};
use crate::error::Error;

/// Loads the model in the file of `source`, or in the split file of which it is a part.
///
/// # Errors
/// One sentence that names the file and the key or tensor at fault.
pub(super) fn load(source: &Source) -> Result<Loaded, Error> {
    let Source { path, revision, settings } = source;
    let GgufHeaders { config, codec, checkpoint } =
        GgufHeaders::read(Path::new(path), settings.special_tokens)?;
    let model = Checkpoint {
        name: path.clone(),
        revision: revision.clone(),
        vocab: codec.vocab(),
        eos: codec.ends().to_vec(),
        unused: codec.unused(),
        tokenizer_sha256: codec.fingerprint(),
        config,
    };
    let model = model.build(settings, &checkpoint)?;
    Ok(Loaded { model, codec: Box::new(codec) })
}

/// A file of which everything but the weights has been read and checked.
struct GgufHeaders {
    config: Config,
    codec: HfTokenizer,
    checkpoint: GgufCheckpoint,
}

impl GgufHeaders {
    fn read(file: &Path, special_tokens: bool) -> Result<Self, Error> {
        let checkpoint = GgufCheckpoint::open(file)?;
        let mut config = families::config(&ConfigKeys::new(file, checkpoint.config()))?;
        if checkpoint.norms_are_complete() {
            config.norm_offset = 0.0;
        }
        config.tensors().try_for_each(|(tensor, shape)| checkpoint.check(&tensor, &shape))?;
        let vocabulary = GgmlVocabulary::read(checkpoint.file().metadata())?;
        let codec = vocabulary.tokenizer(file, config.vocab_rows, special_tokens)?;
        Ok(Self { config, codec, checkpoint })
    }
}

#[cfg(feature = "harness")]
mod summary {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::GgufHeaders;
    use crate::error::Error;
    use crate::model::ModelSummary;

    /// Describes the model in a file without reading its weights.
    ///
    /// # Errors
    /// As [`super::load`].
    pub(in crate::model) fn summarise(file: &Path) -> Result<ModelSummary, Error> {
        let GgufHeaders { codec, checkpoint, .. } = GgufHeaders::read(file, false)?;
        let (mut weights, mut bytes) = (BTreeMap::new(), 0);
        for (_, tensor) in checkpoint.file().tensors() {
            let count = tensor.shape().iter().product::<usize>() as u64;
            *weights.entry(tensor.kind().name()).or_insert(0) += count;
            bytes += tensor.bytes();
        }
        let family = checkpoint.config().get("model_type").and_then(|family| family.as_str());
        let most = weights.iter().max_by_key(|(_, count)| **count);
        Ok(ModelSummary {
            family: family.unwrap_or_default().to_owned(),
            parameters: weights.values().sum(),
            bytes,
            dtype: most.map_or_else(String::new, |(kind, _)| kind.to_ascii_lowercase()),
            vocab: codec.vocab(),
            tokenizer_sha256: codec.fingerprint(),
        })
    }
}
#[cfg(feature = "harness")]
pub(super) use summary::summarise;
