//! What the texts of a cell are to be.

use std::fmt;

use super::arguments::ChatArguments;
use crate::beam::{BEAM_PARAMS, BeamSettings};
use crate::params::{Param, Value};
use crate::sampling::SamplingParams;

/// Texts are drawn token by token.
pub(super) const SAMPLING: &str = "sampling";

/// Texts are found by beam search.
pub(super) const BEAM: &str = "beam";

pub(super) const STRATEGY: Param = Param::choice(
    "strategy",
    SAMPLING,
    &[SAMPLING, BEAM],
    "how texts are made ([strategies.md](strategies.md)); beam search reads no settings of sampling",
);

pub(super) const BATCH: Param = Param::count(
    "batch",
    1,
    1..=256,
    "texts that are decoded together and share passes ([batches.md](batches.md)); a beam search takes one",
);

/// What texts are to be: drawn token by token from a distribution, or the best that a beam
/// search finds. Cells are compared with the baseline that has the same goal.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// How the target's logits become distributions; neutral for beam search.
    pub sampling: SamplingParams,
    /// The settings of beam search.
    pub beam: Option<BeamSettings>,
    /// How many texts are decoded together.
    pub batch: usize,
    /// What the chat template gets.
    pub arguments: ChatArguments,
}

impl Goal {
    /// The name of its strategy, as on the axis.
    pub fn strategy(&self) -> &'static str {
        if self.beam.is_some() { BEAM } else { SAMPLING }
    }

    /// Its settings by key.
    pub fn settings(&self) -> Vec<(&'static str, Value)> {
        let mut settings = match self.beam {
            Some(beam) => {
                let keys = BEAM_PARAMS.iter().map(|param| param.key);
                keys.filter_map(|key| Some((key, beam.get(key)?))).collect()
            }
            None => self.sampling.settings().collect::<Vec<_>>(),
        };
        settings.push((BATCH.key, Value::Count(self.batch)));
        settings
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.beam {
            Some(beam) => beam.fmt(f)?,
            None => {
                write!(f, "T = {}", self.sampling.temperature)?;
                let others = self.sampling.changes().filter(|(key, _)| *key != "temperature");
                others.into_iter().try_for_each(|(key, value)| write!(f, ", {key} = {value}"))?;
            }
        }
        if self.batch > 1 {
            write!(f, ", batch = {}", self.batch)?;
        }
        if !self.arguments.is_empty() {
            write!(f, ", {}", self.arguments)?;
        }
        Ok(())
    }
}
