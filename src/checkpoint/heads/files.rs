//! The files of a head: a folder, or a GGUF file.

use std::path::Path;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

#[cfg(feature = "harness")]
use crate::checkpoint::ModelSummary;
use crate::checkpoint::families::{self, ConfigKeys};
use crate::checkpoint::gguf::GgufCheckpoint;
use crate::checkpoint::hf::{Text, Weights};
use crate::checkpoint::layout;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::engine::blocks::{RawRows, TensorKind};
use crate::engine::decoder::{Config, Described, HeadConfig, TensorNames, Tensors};
use crate::engine::{Dtype, HeadSettings};
use crate::io::input::is_there;
use crate::model::HiddenStates;
use crate::model::toy::hex;

/// Files with the weights of heads; the first one that is there counts. Heads may have those of
/// other models, too.
const OWN_WEIGHTS: [&str; 4] =
    ["medusa_lm_head.safetensors", "model.safetensors", "medusa_lm_head.pt", "model.pt"];

/// Keys that only configurations of heads have.
const KEYS: [&str; 5] = [
    "speculators_model_type",
    "draft_vocab_size",
    "eagle_config",
    "medusa_num_heads",
    "dflash_config",
];
/// Tensors that only heads have, for configurations that do not say so.
const TENSORS: [&str; 3] = ["fc.weight", "fc_norm.0.weight", "encoder.fc.weight"];

/// Whether a folder has no tokenizer, and a configuration or tensors of a head.
pub(super) fn is_head(folder: &Path) -> bool {
    let there = |name: &str| is_there(&folder.join(name));
    if !there("config.json") || there("tokenizer.json") || there("tokenizer.model") {
        return false;
    }
    let config = Text::read(folder.join("config.json"));
    let table = config.and_then(|config| config.json::<Map<String, Value>>());
    let says = table.is_ok_and(|table| KEYS.iter().any(|key| table.contains_key(*key)));
    let has = |weights: Weights| TENSORS.iter().any(|name| weights.has(name));
    says || weights(folder).is_ok_and(has)
}

/// The weights of a folder.
fn weights(folder: &Path) -> Result<Weights, Error> {
    let own = OWN_WEIGHTS.iter().map(|name| folder.join(name)).find(|file| is_there(file));
    own.map_or_else(|| Weights::open(folder), Weights::of_file)
}

/// The files of a head, by the keys and names that they have in the Hugging Face layout.
pub(super) trait HeadStore: Tensors {
    /// The configuration.
    fn keys(&self) -> ConfigKeys<'_>;

    /// Whether there is a tensor of this name.
    fn has(&self, name: &str) -> bool;

    /// Checks that there is a tensor of this name and shape.
    fn check(&self, name: &str, shape: &[usize]) -> Result<(), Error>;

    /// A list of `length` whole numbers.
    fn integers(&self, name: &str, length: usize) -> Result<Vec<i64>, Error>;

    /// Its tensors in a few numbers.
    #[cfg(feature = "harness")]
    fn summary(&self) -> ModelSummary;
}

/// Opens the files at a path, and reads their headers.
pub(super) fn open(path: &str) -> Result<Box<dyn HeadStore>, Error> {
    Ok(match layout::is_gguf(path) {
        true => Box::new(GgufCheckpoint::open(path)?),
        false => Box::new(HeadFolder::open(Path::new(path))?),
    })
}

impl HeadStore for GgufCheckpoint {
    fn keys(&self) -> ConfigKeys<'_> {
        ConfigKeys::new(self.file().path(), self.config())
    }

    fn has(&self, name: &str) -> bool {
        Self::has(self, name)
    }

    fn check(&self, name: &str, shape: &[usize]) -> Result<(), Error> {
        Self::check(self, name, shape)
    }

    fn integers(&self, name: &str, length: usize) -> Result<Vec<i64>, Error> {
        self.offsets(name, length)
    }

    #[cfg(feature = "harness")]
    fn summary(&self) -> ModelSummary {
        self.tensor_summary()
    }
}

/// The folder of a head.
struct HeadFolder {
    config: Text,
    table: Map<String, Value>,
    weights: Weights,
}

impl HeadFolder {
    /// Reads the configuration, and the headers of the weights.
    fn open(folder: &Path) -> Result<Self, Error> {
        let config = Text::read(folder.join("config.json"))?;
        let table = config.json()?;
        Ok(Self { config, table, weights: weights(folder)? })
    }
}

impl HeadStore for HeadFolder {
    fn keys(&self) -> ConfigKeys<'_> {
        ConfigKeys::new(&self.config.file, &self.table)
    }

    fn has(&self, name: &str) -> bool {
        self.weights.has(name)
    }

    fn check(&self, name: &str, shape: &[usize]) -> Result<(), Error> {
        self.weights.check(name, shape)
    }

    fn integers(&self, name: &str, length: usize) -> Result<Vec<i64>, Error> {
        self.weights.integers(name, length)
    }

    #[cfg(feature = "harness")]
    fn summary(&self) -> ModelSummary {
        self.weights.summary()
    }
}

impl Tensors for HeadFolder {
    fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        self.weights.get(name, shape)
    }

    fn kind(&self, name: &str) -> TensorKind {
        self.weights.kind(name)
    }

    fn sha256(&self) -> Result<String, Error> {
        let mut hash = Sha256::new();
        self.config.add_to(&mut hash);
        self.weights.add_to(&mut hash)?;
        Ok(hex(&hash.finalize()))
    }
}

/// What formats read: a head's configuration and the names of its tensors, and what is known of the
/// target.
pub(super) struct HeadFiles<'a> {
    pub(super) keys: ConfigKeys<'a>,
    pub(super) weights: &'a dyn HeadStore,
    /// Number of the target's tokens, and of the rows of its embedding, padding included.
    pub(super) vocabularies: (usize, usize),
    /// The target's hidden states.
    pub(super) hidden: HiddenStates,
    pub(super) settings: &'a HeadSettings,
}

impl HeadFiles<'_> {
    /// Number of the target's tokens.
    pub(super) fn vocab(&self) -> usize {
        self.vocabularies.0
    }

    /// The layers that `keys` describe, as those of a family.
    pub(super) fn decoder(&self, keys: &ConfigKeys<'_>, family: &str) -> Result<Config, Error> {
        let config = families::config_as(keys, family)?;
        if config.layers.iter().any(|layer| layer.window.is_some()) {
            let why = "layer_types names sliding_attention, which no two programs apply alike to \
                       the rows of drafted tokens; heads with windows are not supported";
            return Err(keys.fault(why));
        }
        if config.per_layer.is_some() {
            return Err(keys.fault("heads with inputs per layer are not supported"));
        }
        Ok(Config { names: TensorNames::HEAD, tied: false, ..config })
    }

    /// The target's token of each of the head's, from the offsets of `d2t`; none if the head has all
    /// tokens of the target. `own` is the number of the head's tokens.
    pub(super) fn ids(&self, own: usize) -> Result<Option<Vec<Token>>, Error> {
        if !self.weights.has("d2t") {
            if own == self.vocab() || own == self.vocabularies.1 {
                return Ok(None);
            }
            return Err(self.keys.fault(format!(
                "draft_vocab_size is {own} and the target has {} tokens, but tensor d2t, which says \
                 which are which, is missing",
                self.vocab()
            )));
        }
        let offsets = self.weights.integers("d2t", own)?;
        let ids = offsets.iter().enumerate().map(|(own, offset)| {
            let id = own as i64 + offset;
            usize::try_from(id).ok().filter(|&id| id < self.vocab()).map(|id| id as Token)
        });
        let ids = ids.collect::<Option<Vec<_>>>();
        let ids = ids.filter(|ids| {
            let mut sorted = ids.clone();
            sorted.sort_unstable();
            sorted.windows(2).all(|pair| pair[0] != pair[1])
        });
        let wrong = format!(
            "tensor d2t does not give each of {own} draft tokens a token of its own below {}",
            self.vocab()
        );
        ids.map(Some).ok_or_else(|| self.keys.fault(wrong))
    }

    /// Checks that tables that a head shares have its width, and rows for its tokens.
    pub(super) fn check_shared(&self, config: &HeadConfig) -> Result<(), Error> {
        if config.ids.is_some() && !config.own_head {
            let what = "tensor d2t has the head's tokens, but lm_head.weight with their rows (in \
                        GGUF files output.weight) is missing";
            return Err(self.keys.fault(what));
        }
        let (own, target) = (config.decoder.hidden, self.hidden.width);
        let shares = !config.own_embedding || !config.own_head;
        if shares && own != target {
            let what = if config.own_embedding { "lm_head" } else { "embed_tokens" };
            return Err(self.keys.fault(format!(
                "tensor {what}.weight is missing, and the target's has rows of {target} numbers \
                 where hidden_size is {own}"
            )));
        }
        Ok(())
    }
}

/// The tensors of a head, by the names of [`HeadConfig`].
pub(super) struct HeadTensors<'a> {
    pub(super) files: &'a dyn HeadStore,
    /// See [`HeadShape::names`](super::HeadShape::names).
    pub(super) names: Vec<(String, String)>,
}

impl HeadTensors<'_> {
    /// The name in the file.
    fn name(&self, name: &str) -> String {
        let found = self.names.iter().find_map(|(own, other)| {
            let rest = name.strip_prefix(own.as_str())?;
            (rest.is_empty() || rest.starts_with('.')).then(|| format!("{other}{rest}"))
        });
        found.unwrap_or_else(|| name.to_owned())
    }

    /// Checks that tensors of these shapes are there.
    pub(super) fn check(&self, tensors: &[Described]) -> Result<(), Error> {
        for (name, shape) in tensors {
            self.files.check(&self.name(name), shape)?;
        }
        Ok(())
    }
}

impl Tensors for HeadTensors<'_> {
    fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        self.files.get(&self.name(name), shape)
    }

    fn kind(&self, name: &str) -> TensorKind {
        self.files.kind(&self.name(name))
    }

    fn raw(&self, name: &str, shape: &[usize]) -> Result<RawRows, Error> {
        self.files.raw(&self.name(name), shape)
    }

    fn default_dtype(&self) -> Dtype {
        self.files.default_dtype()
    }

    fn sha256(&self) -> Result<String, Error> {
        self.files.sha256()
    }
}
