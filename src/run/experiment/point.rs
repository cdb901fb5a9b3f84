//! The points of a sweep: a method and what its texts are to be.

use std::fmt::Write;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::arguments::ChatArguments;
use super::axes::{Axes, BATCH, BEAM, SAMPLING, STRATEGY};
use crate::core::params::Value;
use crate::core::sampling::SamplingParams;
use crate::method::beam::{BEAM_PARAMS, BeamSettings, drafting};
use crate::method::decode::{MethodSpec, NUM_SPECULATIVE_TOKENS, PLAIN, class_of};

/// A point of a sweep: a method, and the goal of its texts, which are either drawn token by token
/// from a distribution or the best that a beam search finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Drafter, verifier, draft length and sampling, by their canonical names. Beam search has
    /// neutral settings of sampling.
    #[serde(flatten)]
    pub method: MethodSpec,
    /// The settings of beam search; without them, texts are drawn token by token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beam: Option<BeamSettings>,
    /// How many texts are decoded together; more than one share their passes.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub batch: usize,
    /// What the chat template gets in addition to the conversation.
    #[serde(default, skip_serializing_if = "ChatArguments::is_empty")]
    pub chat_arguments: ChatArguments,
}

fn one() -> usize {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_one(batch: &usize) -> bool {
    *batch == 1
}

impl Default for SweepPoint {
    /// Plain decoding, one text at a time.
    fn default() -> Self {
        Self {
            method: MethodSpec { drafter: PLAIN.to_owned(), ..MethodSpec::default() },
            beam: None,
            batch: 1,
            chat_arguments: ChatArguments::default(),
        }
    }
}

impl SweepPoint {
    /// What its texts are to be, with any drafter: how they are drawn, the beams that find them, how
    /// many are decoded together, and what the chat template gets. Cells are compared with the plain
    /// decoding that has the same goal.
    pub fn goal(&self) -> (SamplingParams, Option<BeamSettings>, usize, &ChatArguments) {
        (self.method.sampling.clone(), self.beam, self.batch, &self.chat_arguments)
    }

    /// The name of its strategy, as on the axis.
    pub fn strategy(&self) -> &'static str {
        if self.beam.is_some() { BEAM } else { SAMPLING }
    }

    /// Whether chance has no part in its texts, so that they must be those of plain decoding.
    pub fn is_determined(&self) -> bool {
        self.beam.is_some() || self.method.sampling.is_greedy()
    }

    /// The settings of its goal, by key.
    pub fn goal_settings(&self) -> Vec<(&'static str, Value)> {
        let mut settings = match self.beam {
            Some(beam) => {
                let keys = BEAM_PARAMS.iter().map(|param| param.key);
                keys.filter_map(|key| Some((key, beam.get(key)?))).collect()
            }
            None => self.method.sampling.settings().collect::<Vec<_>>(),
        };
        settings.push((BATCH.key, Value::Count(self.batch)));
        settings
    }

    /// Its goal in words.
    pub fn goal_in_words(&self) -> String {
        let sampling = self.method.sampling.clone();
        let mut words = match self.beam {
            Some(beam) => beam.to_string(),
            None => format!("T = {}", sampling.temperature),
        };
        // Those of beam search are neutral.
        for (key, value) in sampling.changes().filter(|(key, _)| *key != "temperature") {
            _ = write!(words, ", {key} = {value}");
        }
        if self.batch > 1 {
            _ = write!(words, ", batch = {}", self.batch);
        }
        if !self.chat_arguments.is_empty() {
            _ = write!(words, ", {}", self.chat_arguments);
        }
        words
    }

    /// The same point with the axis `key` set to `value`. Beam search has no settings of
    /// sampling, and sampling none of beam search.
    pub(super) fn with(mut self, key: &str, value: &Value) -> Self {
        let method = &mut self.method;
        match key {
            _ if key == STRATEGY.key => {
                self.beam = (value.to_string() == BEAM).then(BeamSettings::usual);
                if self.beam.is_some() {
                    method.sampling = SamplingParams::NEUTRAL;
                }
            }
            _ if key == BATCH.key => self.batch = value.number().unwrap_or(1.0) as usize,
            "drafter" => method.drafter = value.to_string(),
            "verifier" => method.verifier = value.to_string(),
            "length" => method.length = value.to_string(),
            _ if key == NUM_SPECULATIVE_TOKENS.key => {
                method.num_speculative_tokens = value.number().unwrap_or(0.0) as usize;
            }
            _ if method.sampling.get(key).is_some() => {
                if self.beam.is_none() {
                    method.sampling = method.sampling.clone().with(key, value);
                }
            }
            _ if BeamSettings::default().get(key).is_some() => {
                self.beam = self.beam.map(|beam| beam.with(key, value));
            }
            _ => method.params = method.params.clone().with(key, value.clone()),
        }
        self
    }

    /// The value on the axis `key`; `None` if the point does not have this setting.
    fn get(&self, key: &str) -> Option<Value> {
        let Self { method, beam, .. } = self;
        let own = || method.params.set(key).cloned();
        match (key, beam) {
            ("strategy", _) => Some(Value::Text(self.strategy().to_owned())),
            ("drafter", _) => Some(Value::Text(method.drafter.clone())),
            ("verifier", None) => Some(Value::Text(method.verifier.clone())),
            ("length", _) => Some(Value::Text(method.length.clone())),
            _ if key == BATCH.key => Some(Value::Count(self.batch)),
            _ if key == NUM_SPECULATIVE_TOKENS.key => {
                Some(Value::Count(method.num_speculative_tokens))
            }
            (_, Some(beam)) => beam.get(key).or_else(own),
            (_, None) => method.sampling.get(key).or_else(own),
        }
    }

    /// Whether it has one of the listed values on every axis of a condition.
    pub(super) fn matches(&self, condition: &Axes) -> bool {
        let has = |key: &str, values: &[Value]| {
            self.get(key).is_some_and(|value| values.contains(&value))
        };
        condition.0.iter().all(|(key, values)| has(key, values))
    }

    /// The same point in canonical spelling; see [`MethodSpec::canonical`]. Beam search
    /// verifies nothing, so its verifier is the default.
    ///
    /// # Errors
    /// If a setting is out of range, or settings do not go together.
    pub(super) fn canonical(&self) -> Result<Self> {
        let Some(beam) = self.beam else {
            return Ok(Self { method: self.method.canonical()?, ..self.clone() });
        };
        beam.validate()?;
        let verifier = MethodSpec::default().verifier;
        let method = drafting(&MethodSpec { verifier, ..self.method.clone() }).canonical()?;
        let method = MethodSpec { sampling: self.method.sampling.clone(), ..method };
        if self.batch > 1 {
            bail!("batch = {}: a beam search is a batch of its own; allowed is 1", self.batch);
        }
        Ok(Self { method, ..self.clone() })
    }

    /// The guarantee class; see [`class_of`]. Drafts change no text of a beam search, as they
    /// change none of greedy decoding.
    pub(super) fn class(&self, row_invariant: bool) -> Result<String> {
        Ok(match self.beam {
            Some(_) => class_of(&drafting(&self.method), row_invariant)?,
            None => class_of(&self.method, row_invariant)?,
        })
    }

    pub(super) fn in_words(&self) -> String {
        let Self { method, beam, .. } = self;
        let mut words = method.drafter.clone();
        if !method.is_plain() {
            let verifier = format!(" + {}", method.verifier);
            words += if beam.is_some() { "" } else { &verifier };
            words += &format!(", K = {}", method.num_speculative_tokens);
        }
        words += &format!(", {}", self.goal_in_words());
        for (key, value) in method.params.iter() {
            words += &format!(", {key} = {value}");
        }
        words
    }
}
