//! The lines of a tape, as `docs/tape.md` describes them.

use serde::{Deserialize, Deserializer, Serialize};

use super::beliefs::DraftBeliefs;
use super::forecast::{TapeEnd, TapeLength};
use super::level::LevelScores;
use super::log::TapeLog;
use super::siblings::SiblingScores;
use crate::core::distribution::Token;
use crate::core::params::{ParamKind, Params};
use crate::core::sampling::SamplingParams;
use crate::method::decode::{MethodSpec, find_param};
use crate::model::{CacheDtype, ModelInfo};

/// The version of the format.
pub const TAPE_FORMAT: u32 = 1;

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TapeLine {
    /// The first line: what was recorded.
    Tape(TapeHeader),
    /// A recorded sequence.
    #[serde(rename = "text")]
    Sequence(TapeSequence),
    /// A drafter that has scored sequences.
    Drafter(TapeDrafter),
    /// Its score of a sequence.
    Score(TapeScore),
    /// A decoding of which only the rounds are known.
    Log(TapeLog),
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TapeHeader {
    /// [`TAPE_FORMAT`].
    pub format: u32,
    /// Where the sequences come from: `plain` for plain decoding by specdec, else the name of the
    /// format that they were imported from.
    pub source: String,
    /// The build that recorded or imported them.
    pub build: String,
    /// The target; fields that an import does not know are empty.
    pub target: TapeModel,
    /// The seed of the sequences, if they share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether end tokens were treated like any other token.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_eos: bool,
    /// The sampling settings that occur.
    pub samplings: Vec<SamplingParams>,
}

/// A model, described by everything that its probabilities depend on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TapeModel {
    /// Its name.
    pub name: String,
    /// The commit of its repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// SHA-256 over weights, configuration and tokenizer.
    pub sha256: String,
    /// SHA-256 of the map from token to id.
    pub tokenizer_sha256: String,
    /// Number of tokens in the vocabulary.
    pub vocab: usize,
    /// Which code computes the logits.
    pub engine: String,
    /// Type of the weights in memory.
    pub dtype: String,
    /// How it stores keys and values.
    #[serde(default)]
    pub kv_cache_dtype: CacheDtype,
    /// The device that holds the weights.
    pub device: String,
    /// Whether one pass drafts all tokens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
}

/// A recorded sequence: a prompt and its completion.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TapeSequence {
    /// Id of the prompt.
    pub prompt: String,
    /// Its category.
    #[serde(default)]
    pub category: String,
    /// Number of the sequence among those of the prompt, from 0.
    #[serde(default)]
    pub repeat: u32,
    /// The sampling setting, as an index of [`TapeHeader::samplings`].
    pub sampling: usize,
    /// The tokens of the prompt.
    pub prompt_tokens: Vec<Token>,
    /// The tokens of the completion.
    pub tokens: Vec<Token>,
    /// Maximum number of tokens that it could have had.
    pub max_tokens: usize,
    /// How it ended.
    pub end: TapeEnd,
    /// log p of each token, after all processors; null for a token that cannot be drawn.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "logs")]
    pub log_p: Option<Vec<f64>>,
}

/// A drafter that has scored the sequences.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TapeDrafter {
    /// Its name in the registry.
    pub drafter: String,
    /// Its model, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<TapeModel>,
    /// The draft length policy, unless K is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<String>,
    /// The settings of both.
    #[serde(default, skip_serializing_if = "Params::is_empty")]
    pub params: Params,
    /// The largest K that its scores cover; none if they cover every K.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<usize>,
}

/// A drafter's score of a sequence.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TapeScore {
    /// Index of the drafter among those of the tape.
    pub drafter: usize,
    /// Index of the sequence among those of the tape.
    #[serde(rename = "text")]
    pub sequence: usize,
    /// log q of each token, if q depends on the context alone; null for a token that the drafter
    /// cannot draw.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "logs")]
    pub log_q: Option<Vec<f64>>,
    /// For a drafter whose drafts depend on where they begin: one entry for each token at which a
    /// draft may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<Vec<DraftStart>>,
    /// Σ min(p, q) at each token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Vec<f64>>,
    /// The probability that the draft's race, too, picks each token, given that the target's did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub race: Option<Vec<f64>>,
    /// The acceptance of several drafted tokens at one position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub siblings: Option<SiblingScores>,
    /// The acceptance of greedy and of drawn tokens at each position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<LevelScores>,
    /// What draft length policies see of its drafts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beliefs: Option<DraftBeliefs>,
}

/// A draft that begins at some token.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftStart {
    /// Number of its tokens.
    #[serde(rename = "n")]
    pub drafted: usize,
    /// log q of its tokens as long as it follows the sequence; 0 for a token that was looked up.
    #[serde(rename = "q")]
    pub log_q: Vec<f64>,
}

/// Reads null as −∞, since JSON has no infinity.
fn logs<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<f64>>, D::Error> {
    let numbers = Option::<Vec<Option<f64>>>::deserialize(from)?;
    let finite = |number: Option<f64>| number.unwrap_or(f64::NEG_INFINITY);
    Ok(numbers.map(|numbers| numbers.into_iter().map(finite).collect()))
}

impl TapeSequence {
    /// The lengths on which its drafts depend.
    pub fn length(&self) -> TapeLength {
        TapeLength { tokens: self.tokens.len(), max_tokens: self.max_tokens }
    }
}

impl TapeDrafter {
    /// Whether it needs a draft model.
    pub fn needs_model(&self) -> bool {
        let drafter = self.drafter.clone();
        MethodSpec { drafter, ..MethodSpec::default() }.needs_draft_model()
    }

    /// The passes of its model that a draft takes.
    pub fn passes(&self) -> DraftPasses {
        match &self.model {
            None => DraftPasses::None,
            Some(model) if model.at_once => DraftPasses::One,
            Some(_) => DraftPasses::Each,
        }
    }

    /// The text files that it reads.
    pub fn files(&self) -> impl Iterator<Item = String> {
        let file = |key: &str| find_param(key).is_ok_and(|param| param.kind == ParamKind::File);
        let named = self.params.iter().filter(move |(key, _)| file(key));
        named.map(|(_, value)| value.to_string()).filter(|path| !path.is_empty())
    }

    /// The name of its model; empty if it has none.
    pub fn model_name(&self) -> &str {
        self.model.as_ref().map_or("", |model| &model.name)
    }

    /// Its name, model and settings, in words.
    pub fn describe(&self) -> String {
        let model = self.model.iter().map(|model| format!(" {}", model.describe()));
        let set = self.params.iter().map(|(key, value)| format!(", {key} = {value}"));
        let length = self.length.iter().map(|length| format!(", {length}"));
        model.chain(length).chain(set).fold(self.drafter.clone(), |text, part| text + &part)
    }
}

/// The passes of a model that a draft takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftPasses {
    /// None: no model drafts.
    None,
    /// One for each level.
    Each,
    /// One for all levels.
    One,
}

impl DraftPasses {
    /// The passes of a draft with `levels` levels.
    pub fn of(self, levels: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Each => levels,
            Self::One => levels.min(1),
        }
    }
}

impl TapeModel {
    /// Its name and dtype, if they are known.
    pub fn describe(&self) -> String {
        match (self.name.as_str(), self.dtype.as_str()) {
            ("", _) => "unknown".to_owned(),
            (name, "") => name.to_owned(),
            (name, dtype) => format!("{name} in {dtype}"),
        }
    }

    /// A model under the name by which it was requested; a tape does not hold its path.
    pub fn new(name: &str, info: &ModelInfo) -> Self {
        Self {
            name: name.to_owned(),
            revision: info.revision.clone(),
            sha256: info.sha256.clone(),
            tokenizer_sha256: info.tokenizer_sha256.clone(),
            vocab: info.vocab,
            engine: info.engine.to_owned(),
            dtype: info.dtype.to_owned(),
            kv_cache_dtype: info.cache_dtype,
            device: info.device.clone(),
            at_once: info.at_once,
        }
    }
}
