//! The files of a folder in the Hugging Face layout: `config.json`, `generation_config.json`,
//! `tokenizer.json`, and weights in the formats of safetensors and of `torch.save`.

mod config;
mod files;
mod fused;
mod guard;
mod index;
mod pickled;
mod quantised;
mod safetensors;
mod stored;
mod tokenizer;
mod weights;

pub(super) use self::config::{Marks, read_config};
pub(super) use self::files::Text;
#[cfg(feature = "harness")]
pub(super) use self::index::weight_files;
pub(super) use self::quantised::Quantised;
pub(super) use self::tokenizer::{Dialect, HfTokenizer};
pub(super) use self::weights::Weights;

#[cfg(feature = "harness")]
use super::ModelSummary;
use super::build::Checkpoint;
use crate::engine::Source;
use crate::engine::decoder::Config;
#[cfg(feature = "harness")]
use crate::model::HiddenStates;

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
