//! A model in a GGUF file: its decoder, its tokenizer and its weights.
//!
//! The native engine keeps the blocks of a file unless another dtype is asked for; then they
//! become f32 weights first, as for the candle engine. With f32, the logits are those of the
//! file's own weights.

use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "harness")]
use super::ModelSummary;
use super::families::{self, ConfigKeys};
use super::ggml_vocabulary::GgmlVocabulary;
use super::gguf::GgufCheckpoint;
use super::hf::HfTokenizer;
use crate::core::error::Error;
use crate::engine::Source;
use crate::engine::decoder::Config;
use crate::model::Loaded;

/// Loads the model in the file of `source`, or in the split file of which it is a part.
pub(super) fn load(source: &Source) -> Result<Loaded, Error> {
    let Source { path, settings, .. } = source;
    let GgufHeaders { config, codec, checkpoint } =
        GgufHeaders::read(Path::new(path), settings.special_tokens)?;
    let model = codec.checkpoint(source, config).build(settings, &checkpoint)?;
    Ok(Loaded { model, codec: Arc::new(codec) })
}

/// Describes the model in a file without reading its weights.
#[cfg(feature = "harness")]
pub(super) fn summarise(file: &Path) -> Result<ModelSummary, Error> {
    let GgufHeaders { config, codec, checkpoint } = GgufHeaders::read(file, false)?;
    Ok(codec.summary(config, checkpoint.tensor_summary()))
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
        if checkpoint.is_head() {
            let what = "this is a head, which drafts from hidden states of a target: give it as a \
                        draft, not as a model";
            return Err(Error::file(file, what));
        }
        let mut config = families::config(&ConfigKeys::new(file, checkpoint.config()))?;
        if checkpoint.norms_are_complete() {
            config.norm_offset = 0.0;
        }
        for (tensor, shape) in config.tensors() {
            checkpoint.check(&tensor, &shape)?;
        }
        let vocabulary = GgmlVocabulary::read(checkpoint.file().metadata())?;
        let codec = vocabulary.tokenizer(file, config.vocab_rows, special_tokens)?;
        Ok(Self { config, codec, checkpoint })
    }
}
