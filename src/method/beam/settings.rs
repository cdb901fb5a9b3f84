//! The settings of beam search, with the names and meanings of `transformers`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::params::{BEAM_PARAMS, MOST_BEAMS, USUAL_BEAMS};
use crate::core::error::Error;
use crate::core::params::Value;
use crate::core::sampling::SamplingParams;
use crate::method::decode::MethodSpec;

/// The width of a search, and how its hypotheses are scored.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BeamSettings {
    /// Number of completions extended in parallel.
    pub num_beams: usize,
    /// The power of the length by which log p of a finished completion is divided. Positive values
    /// favour long completions, negative values short ones.
    pub length_penalty: f64,
    /// When to end although beams could continue. A single beam ends with its first finished
    /// completion, like greedy decoding.
    pub early_stopping: EarlyStopping,
    /// Number of finished completions to return, best first.
    pub num_return_sequences: usize,
    /// Number of groups of beams. Each has an equal share of `num_beams`. In each step, the groups
    /// choose one after another (Vijayakumar et al. 2016, arXiv 1610.02424).
    pub num_beam_groups: usize,
    /// The penalty on log p of a token for every beam of an earlier group that chose it in the same
    /// step.
    pub diversity_penalty: f64,
}

impl Default for BeamSettings {
    fn default() -> Self {
        Self {
            num_beams: 1,
            length_penalty: 1.0,
            early_stopping: EarlyStopping::False,
            num_return_sequences: 1,
            num_beam_groups: 1,
            diversity_penalty: 0.0,
        }
    }
}

impl BeamSettings {
    /// Checks the ranges, and that the settings are consistent.
    ///
    /// # Errors
    /// One sentence that names the first invalid setting and the allowed values.
    pub fn validate(&self) -> Result<(), Error> {
        let Self { num_beams, num_beam_groups: groups, .. } = *self;
        let fail = |sentence: String| Err(Error::setting(sentence));
        if !(1..=MOST_BEAMS).contains(&num_beams) {
            return fail(format!("num_beams = {num_beams}: allowed are 1 to {MOST_BEAMS}"));
        }
        if !(1..=num_beams).contains(&self.num_return_sequences) {
            let wanted = self.num_return_sequences;
            return fail(format!(
                "num_return_sequences = {wanted}: allowed are 1 to num_beams, which is {num_beams}"
            ));
        }
        if groups == 0 || !num_beams.is_multiple_of(groups) {
            return fail(format!(
                "num_beam_groups = {groups}: allowed are the divisors of num_beams, which is \
                 {num_beams}"
            ));
        }
        let Self { length_penalty, diversity_penalty, .. } = *self;
        if !length_penalty.is_finite() {
            return fail(format!("length_penalty = {length_penalty}: allowed are finite numbers"));
        }
        if !(0.0..f64::INFINITY).contains(&diversity_penalty) {
            return fail(format!(
                "diversity_penalty = {diversity_penalty}: allowed are finite numbers >= 0"
            ));
        }
        if (diversity_penalty > 0.0) != (groups > 1) {
            return fail(format!(
                "diversity_penalty = {diversity_penalty}, num_beam_groups = {groups}: groups need a \
                 penalty above 0, and the penalty needs groups"
            ));
        }
        Ok(())
    }

    /// The default settings of experiments.
    pub fn usual() -> Self {
        Self { num_beams: USUAL_BEAMS, ..Self::default() }
    }

    /// The same settings with another value for one in [`BEAM_PARAMS`]; other keys are ignored.
    #[must_use]
    pub fn with(mut self, key: &str, value: &Value) -> Self {
        let number = value.number().unwrap_or_default();
        match key {
            "num_beams" => self.num_beams = number as usize,
            "length_penalty" => self.length_penalty = number,
            "early_stopping" => {
                self.early_stopping = value.to_string().parse().unwrap_or(EarlyStopping::False);
            }
            "num_beam_groups" => self.num_beam_groups = number as usize,
            "diversity_penalty" => self.diversity_penalty = number,
            _ => {}
        }
        self
    }

    /// The value of a setting in [`BEAM_PARAMS`].
    pub fn get(&self, key: &str) -> Option<Value> {
        Some(match key {
            "num_beams" => Value::Count(self.num_beams),
            "length_penalty" => Value::Number(self.length_penalty),
            "early_stopping" => Value::Text(self.early_stopping.to_string()),
            "num_beam_groups" => Value::Count(self.num_beam_groups),
            "diversity_penalty" => Value::Number(self.diversity_penalty),
            _ => return None,
        })
    }

    /// When to end. A single beam is greedy decoding, which does not search for a second
    /// completion.
    pub(super) fn ends(&self) -> EarlyStopping {
        if self.num_beams == 1 { EarlyStopping::True } else { self.early_stopping }
    }

    /// log p of a completion of `length` tokens, divided by the length to the power of
    /// `length_penalty`.
    pub fn score(&self, log_prob: f64, length: usize) -> f64 {
        log_prob / libm::pow(length as f64, self.length_penalty)
    }

    pub(super) fn width(&self) -> usize {
        self.num_beams / self.num_beam_groups
    }
}

impl fmt::Display for BeamSettings {
    /// `4 beams`, followed by the settings that differ from their defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} beam{}", self.num_beams, if self.num_beams == 1 { "" } else { "s" })?;
        for param in BEAM_PARAMS.iter().filter(|param| param.key != "num_beams") {
            if let Some(value) =
                self.get(param.key).filter(|own| param.default().as_ref() != Some(own))
            {
                write!(f, ", {} = {value}", param.key)?;
            }
        }
        Ok(())
    }
}

/// The method with which beams draft: greedily, since they search for the most probable tokens.
pub fn drafting(method: &MethodSpec) -> MethodSpec {
    let sampling = SamplingParams { temperature: 0.0, ..method.sampling.clone() };
    MethodSpec { sampling, ..method.clone() }
}

/// When a search ends although beams could continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlyStopping {
    /// As soon as there are as many finished hypotheses as beams.
    True,
    /// As soon as no live beam would be among the best if it were finished now.
    #[default]
    False,
    /// As soon as no live beam can become one of the best at any length.
    Never,
}

impl EarlyStopping {
    const ALL: [Self; 3] = [Self::True, Self::False, Self::Never];

    fn name(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for EarlyStopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EarlyStopping {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|each| each.name() == text);
        found.ok_or_else(|| {
            Error::setting(format!("early_stopping = {text}: allowed are true, false, never"))
        })
    }
}
