//! A method by its names: what configs and the command line say, checked and
//! made into a drafter, a length policy, a verifier and a sampler.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::Method;
use crate::draft::{BuildDrafter, DRAFTERS, DrafterParams};
use crate::length::{BuildLength, LENGTHS, LengthParams};
use crate::model::{LanguageModel, ModelError};
use crate::registry::{Class, Entry, find};
use crate::sampling::{RangeError, Sampler, SamplingParams};
use crate::verify::{VERIFIERS, Verifier};

/// The drafter that proposes nothing: plain autoregressive decoding.
pub const PLAIN: &str = "none";

/// One decoding method, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MethodSpec {
    /// WHO proposes: a name or alias in [`DRAFTERS`].
    pub drafter: String,
    /// WHAT is kept: a name or alias in [`VERIFIERS`].
    pub verifier: String,
    /// HOW FAR ahead: a name or alias in [`LENGTHS`].
    pub length: String,
    /// K: drafted tokens per round.
    pub num_speculative_tokens: usize,
    /// The draft model's temperature; the target's if not given.
    pub draft_temperature: Option<f64>,
    /// How the target's logits become laws.
    pub sampling: SamplingParams,
    /// Longest n-gram looked up.
    pub prompt_lookup_max: usize,
    /// Shortest n-gram looked up.
    pub prompt_lookup_min: usize,
}

impl Default for MethodSpec {
    fn default() -> Self {
        Self {
            drafter: "model".to_owned(),
            verifier: "rejection".to_owned(),
            length: "fixed".to_owned(),
            num_speculative_tokens: 4,
            draft_temperature: None,
            sampling: SamplingParams::default(),
            prompt_lookup_max: 3,
            prompt_lookup_min: 1,
        }
    }
}

/// The registry entries that a spec names.
struct Entries {
    drafter: &'static Entry<BuildDrafter>,
    verifier: &'static Entry<&'static dyn Verifier>,
    length: &'static Entry<BuildLength>,
}

impl MethodSpec {
    /// Checks names, ranges and that the verifier is exact for what the drafter
    /// proposes.
    ///
    /// # Errors
    /// One sentence that names the first setting at fault and what is allowed.
    pub fn validate(&self) -> Result<(), ModelError> {
        let entries = self.entries()?;
        self.sampling.validate().map_err(sentence)?;
        self.draft_sampling().validate().map_err(|e| {
            // The draft has the target's settings but for its temperature.
            sentence(RangeError { key: "draft_temperature", ..e })
        })?;
        if self.prompt_lookup_min == 0 || self.prompt_lookup_max < self.prompt_lookup_min {
            return Err(ModelError::new(format!(
                "prompt_lookup_min = {} and prompt_lookup_max = {} are out of range: allowed is \
                 1 <= prompt_lookup_min <= prompt_lookup_max",
                self.prompt_lookup_min, self.prompt_lookup_max
            )));
        }
        if entries.drafter.name != PLAIN && self.num_speculative_tokens == 0 {
            return Err(ModelError::new(format!(
                "num_speculative_tokens = 0 is out of range: drafter \"{}\" needs at least 1 \
                 (for plain decoding use the drafter \"{PLAIN}\")",
                entries.drafter.name
            )));
        }
        let shape = entries.drafter.shape.unwrap_or_default();
        if !entries.verifier.build.supports(&shape) {
            return Err(ModelError::new(format!(
                "verifier \"{}\" is not exact for what drafter \"{}\" proposes: see \
                 `specdec list` for verifiers that are",
                entries.verifier.name, entries.drafter.name
            )));
        }
        Ok(())
    }

    /// The same method in canonical spelling, so that two spellings of one
    /// method are equal: aliases become names, and plain decoding has K = 0 and
    /// nothing that only a drafter would read.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn canonical(&self) -> Result<Self, ModelError> {
        self.validate()?;
        let entries = self.entries()?;
        let mut spec = self.clone();
        spec.drafter = entries.drafter.name.to_owned();
        spec.verifier = entries.verifier.name.to_owned();
        spec.length = entries.length.name.to_owned();
        if spec.is_plain() {
            spec.num_speculative_tokens = 0;
            spec.draft_temperature = None;
        }
        if spec.draft_temperature == Some(spec.sampling.temperature) {
            spec.draft_temperature = None;
        }
        Ok(spec)
    }

    /// Whether this is plain autoregressive decoding, the baseline.
    pub fn is_plain(&self) -> bool {
        DRAFTERS.iter().any(|e| {
            e.name == PLAIN && (e.name == self.drafter || e.aliases.contains(&&*self.drafter))
        })
    }

    /// Makes the method. `draft_model` is there for drafters that need one.
    ///
    /// # Errors
    /// As [`Self::validate`], or if the drafter needs a draft model and there
    /// is none, or the model cannot open a session.
    pub fn build<'a>(
        &self,
        draft_model: Option<&'a dyn LanguageModel>,
    ) -> Result<Method<'a>, ModelError> {
        self.validate()?;
        let entries = self.entries()?;
        let draft_sampler = Sampler::new(self.draft_sampling()).map_err(sentence)?;
        let params = DrafterParams {
            model: draft_model,
            sampler: &draft_sampler,
            prompt_lookup_max: self.prompt_lookup_max,
            prompt_lookup_min: self.prompt_lookup_min,
        };
        let length = LengthParams { num_speculative_tokens: self.num_speculative_tokens };
        Ok(Method {
            drafter: (entries.drafter.build)(&params)?,
            length: (entries.length.build)(&length),
            verifier: entries.verifier.build,
            sampler: Sampler::new(self.sampling).map_err(sentence)?,
        })
    }

    /// Whether the drafter cannot be made without a draft model.
    pub fn needs_draft_model(&self) -> bool {
        self.validate().is_ok() && self.build(None).is_err()
    }

    /// How the draft model's logits become laws: the target's settings with the
    /// draft's own temperature.
    pub fn draft_sampling(&self) -> SamplingParams {
        let temperature = self.draft_temperature.unwrap_or(self.sampling.temperature);
        SamplingParams { temperature, ..self.sampling }
    }

    fn entries(&self) -> Result<Entries, ModelError> {
        Ok(Entries {
            drafter: find("drafter", DRAFTERS, &self.drafter).map_err(sentence)?,
            verifier: find("verifier", VERIFIERS, &self.verifier).map_err(sentence)?,
            length: find("draft length policy", LENGTHS, &self.length).map_err(sentence)?,
        })
    }
}

/// What is guaranteed of the output of `spec`: D, G, P or X, with a `~` where
/// the engine cannot keep the promise bit for bit.
///
/// At a temperature of zero a method of class D has one possible output, the
/// greedy one, and counts as G. G and P compare with plain decoding token by
/// token, so they need an engine whose logits do not depend on the number of
/// rows in a pass (`row_invariant`). Plain decoding itself *is* the standard
/// of that comparison and never carries the mark.
///
/// # Errors
/// If the verifier's name is unknown.
pub fn class_of(spec: &MethodSpec, row_invariant: bool) -> Result<String, ModelError> {
    let verifier = find("verifier", VERIFIERS, &spec.verifier).map_err(sentence)?;
    let class = match verifier.class.unwrap_or(Class::X) {
        Class::D if spec.sampling.is_greedy() => Class::G,
        class => class,
    };
    let compares = matches!(class, Class::G | Class::P) && !spec.is_plain();
    let mark = if compares && !row_invariant { "~" } else { "" };
    Ok(format!("{class:?}{mark}"))
}

fn sentence(error: impl Display) -> ModelError {
    ModelError::new(error.to_string())
}
