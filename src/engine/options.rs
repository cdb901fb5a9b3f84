//! How a model is stored and computed.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use super::blocks::TensorKind;
pub(crate) use crate::core::lanes::BLOCK;
use crate::core::lanes::IsaKind;
use crate::core::registry::named;
use crate::model::{CacheDtype, HeadFault, Role};

/// Which code computes the logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Our own kernels for the CPU: row-invariant, and limited by memory bandwidth.
    #[default]
    Native,
    /// candle, on any of its devices.
    Candle,
}

/// How weights are stored in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// Four bytes per weight.
    #[default]
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
    /// Blocks of 32 signed bytes with an f16 scale.
    Q8_0,
    /// As in the file: each tensor in its own type. The default for GGUF files and quantised
    /// folders, whose blocks stay as they are.
    Stored,
}

named!(Engine: Native = "native", Candle = "candle");
named!(Dtype: F32 = "f32", Bf16 = "bf16", F16 = "f16", Q8_0 = "q8_0", Stored = "stored");

/// The largest weight of a block of [`Dtype::Q8_0`], in units of its scale.
pub(super) const Q8_LEVELS: f32 = 127.0;

impl Dtype {
    /// The type in which a matrix with `inputs` inputs is stored: rows that do not
    /// consist of whole blocks of Q8 stay f32.
    pub(crate) fn stored(self, inputs: usize) -> Self {
        if self == Self::Q8_0 && !inputs.is_multiple_of(BLOCK) { Self::F32 } else { self }
    }

    /// Bytes of a matrix whose tensor is of type `kind` in its file.
    pub(super) fn bytes(self, outputs: usize, inputs: usize, kind: TensorKind) -> usize {
        let weights = outputs * inputs;
        match self.stored(inputs) {
            Self::F32 => 4 * weights,
            Self::Bf16 | Self::F16 => 2 * weights,
            Self::Q8_0 => weights + 2 * (weights / BLOCK),
            // A padded block counts as a whole one.
            Self::Stored => outputs * inputs.div_ceil(kind.length()) * kind.bytes(),
        }
    }

    /// Whether a weight of this magnitude is finite as stored.
    pub(super) fn holds(self, weight: f32) -> bool {
        match self {
            Self::F32 | Self::Stored => weight.is_finite(),
            Self::Bf16 => bf16::from_f32(weight).is_finite(),
            Self::F16 => f16::from_f32(weight).is_finite(),
            Self::Q8_0 => f16::from_f32(weight / Q8_LEVELS).is_finite(),
        }
    }
}

/// How a head is read where programs differ; absent settings are those that it was trained with, as
/// far as its files say.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadSettings {
    /// What the rows of drafted tokens continue from.
    pub feedback: Option<Feedback>,
    /// The hidden states of the target that it reads.
    pub taps: Option<TapSetting>,
    /// What it makes of the first row.
    pub first_row: Option<FirstRow>,
    /// Number of rows of a block, or of rows that predict in one pass.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub block: Option<usize>,
    /// Whether rows of a block see none after them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub causal: Option<bool>,
    /// Whether rows of a block predict the token after their position.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub anchor_first: Option<bool>,
    /// A mistake, for studies of what finds it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fault: Option<HeadFault>,
}

/// What a head makes of the first row, where programs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstRow {
    /// A row of the first token comes before it, with a state of zeros (llama.cpp, for MTP).
    Extra,
    /// Its embedding is zeros (vLLM, for some families of MTP).
    ZeroEmbedding,
}

/// What the rows of drafted tokens continue from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Feedback {
    /// The output of the layers.
    #[serde(rename = "pre")]
    Plain,
    /// The same after the last norm.
    #[serde(rename = "post")]
    Normed,
}

/// The hidden states of the target that a head reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"as_written\" or a list of numbers of layers")]
pub enum TapSetting {
    /// The numbers of layers in its file, each as the number of layers before the state.
    Written(AsWritten),
    /// Those after these numbers of layers.
    After(Vec<usize>),
}

/// The one name that stands for taps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AsWritten {
    /// See [`TapSetting::Written`].
    AsWritten,
}

/// Settings of a model; absent ones have their defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Which code computes the logits.
    pub engine: Option<Engine>,
    /// How weights are stored in memory.
    pub dtype: Option<Dtype>,
    /// How keys and values are stored.
    pub kv_cache_dtype: Option<CacheDtype>,
    /// The device that holds the weights: `cpu`, `cuda:N` or `metal`.
    pub device: Option<String>,
    /// How a head is read where programs differ.
    #[serde(skip_serializing_if = "HeadSettings::is_default", default)]
    pub head: HeadSettings,
    /// The native engine's instruction set, for programs that compare them; see
    /// [`IsaKind::choose`] for the default.
    #[serde(skip)]
    pub isa: Option<IsaKind>,
    /// Number of threads of a separate pool for this model.
    #[serde(skip)]
    pub threads: Option<usize>,
    /// Whether this pool is a [`Pool::restless`](crate::engine::pool::Pool::restless), for
    /// tests.
    #[serde(skip)]
    pub restless: bool,
    /// Whether strings in texts that name control tokens, such as `</s>`, become these
    /// tokens; otherwise they are plain text.
    #[serde(skip)]
    pub special_tokens: bool,
    /// Whether every pass computes the whole text again instead of keeping keys and values.
    #[serde(skip)]
    pub without_cache: bool,
}

impl HeadSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    fn or(self, other: Self) -> Self {
        Self {
            feedback: self.feedback.or(other.feedback),
            taps: self.taps.or(other.taps),
            first_row: self.first_row.or(other.first_row),
            block: self.block.or(other.block),
            causal: self.causal.or(other.causal),
            anchor_first: self.anchor_first.or(other.anchor_first),
            fault: self.fault.or(other.fault),
        }
    }
}

impl Settings {
    /// These settings for a target or a draft model; `draft_dtype` overrides the type
    /// of a draft model.
    #[must_use]
    pub fn of(self, role: Role, draft_dtype: Option<Dtype>) -> Self {
        let own = draft_dtype.filter(|_| role == Role::Draft);
        Self { dtype: own.or(self.dtype), ..self }
    }

    /// These settings; absent ones are taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            engine: self.engine.or(other.engine),
            dtype: self.dtype.or(other.dtype),
            kv_cache_dtype: self.kv_cache_dtype.or(other.kv_cache_dtype),
            device: self.device.or(other.device),
            head: self.head.or(other.head),
            isa: self.isa.or(other.isa),
            threads: self.threads.or(other.threads),
            restless: self.restless || other.restless,
            special_tokens: self.special_tokens || other.special_tokens,
            without_cache: self.without_cache || other.without_cache,
        }
    }
}

/// A model to be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// `toy:NAME`, `toy:FILE.json`, or a folder in the Hugging Face layout.
    pub path: String,
    /// The commit of the Hugging Face repository that it is from; none for anything else.
    pub revision: Option<String>,
    /// How to store and compute it.
    pub settings: Settings,
}

impl Source {
    /// The same model; `settings` take precedence over its own.
    #[must_use]
    pub fn with(self, settings: Settings) -> Self {
        Self { settings: settings.or(self.settings), ..self }
    }
}

impl From<String> for Source {
    fn from(path: String) -> Self {
        Self { path, revision: None, settings: Settings::default() }
    }
}

impl From<&str> for Source {
    fn from(path: &str) -> Self {
        path.to_owned().into()
    }
}
