//! The points of a sweep: a method and what its texts are to be.

use anyhow::{Result, bail};

use super::arguments::ChatArguments;
use super::axes::Axes;
use super::goal::{BATCH, BEAM, Goal, STRATEGY};
use crate::beam::{BeamSettings, drafting};
use crate::decode::{MethodSpec, NUM_SPECULATIVE_TOKENS, PLAIN, class_of};
use crate::params::Value;
use crate::sampling::SamplingParams;

/// A point of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SweepPoint {
    pub(super) method: MethodSpec,
    pub(super) beam: Option<BeamSettings>,
    pub(super) batch: usize,
    pub(super) arguments: ChatArguments,
}

impl Default for SweepPoint {
    fn default() -> Self {
        Self::new(Goal {
            sampling: SamplingParams::default(),
            beam: None,
            batch: 1,
            arguments: ChatArguments::default(),
        })
    }
}

impl SweepPoint {
    /// The default method with this goal.
    pub(super) fn new(Goal { sampling, beam, batch, arguments }: Goal) -> Self {
        Self { method: MethodSpec { sampling, ..MethodSpec::default() }, beam, batch, arguments }
    }

    /// Plain decoding with this goal: the baseline.
    pub(super) fn plain(goal: Goal) -> Self {
        let mut point = Self::new(goal);
        point.method.drafter = PLAIN.to_owned();
        point
    }

    pub(super) fn goal(&self) -> Goal {
        let (sampling, beam, batch) = (self.method.sampling, self.beam, self.batch);
        Goal { sampling, beam, batch, arguments: self.arguments.clone() }
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
                    method.sampling = method.sampling.with(key, value);
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
            ("strategy", _) => Some(Value::Text(self.goal().strategy().to_owned())),
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
        let method = MethodSpec { sampling: self.method.sampling, ..method };
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
        words += &format!(", {}", self.goal());
        for (key, value) in method.params.iter() {
            words += &format!(", {key} = {value}");
        }
        words
    }
}
