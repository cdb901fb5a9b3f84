//! The processors and their settings. Each is declared once, with its key, neutral value,
//! range and effect. Its field, command-line option, sweep axis, part in a cell's
//! identity, column of `summary.csv`, and line in the reference page and the schema all
//! follow from the declaration.

use serde::{Deserialize, Serialize};

use super::controls::{ControlSet, Controls};
use crate::core::params::{BadParam, Param, Value};

/// The largest `top_k`, far above any vocabulary size.
pub const MOST_TOP_K: usize = 1 << 30;

/// One processor.
#[derive(Debug, Clone, Copy)]
pub struct Processor {
    /// Its setting; the default is neutral.
    pub setting: Param,
    get: fn(&SamplingParams) -> Value,
    set: fn(&mut SamplingParams, &Value),
}

/// Declares the processors in the order in which they are applied. The order is fixed:
/// changing it changes the distribution.
macro_rules! processors {
    ($(
        $key:ident: $type:ident::$kind:ident($neutral:expr, $range:expr),
        [$($alias:literal),*],
        $summary:literal;
    )+) => {
        /// How logits become a distribution; all fields have neutral defaults.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct SamplingParams {
            $(#[doc = $summary] pub $key: $type,)+
            /// What a request forbids, allows or prefers, before all of these.
            #[serde(skip_serializing_if = "Controls::is_none")]
            pub controls: Controls,
        }

        impl SamplingParams {
            /// Settings that change nothing.
            pub const NEUTRAL: Self = Self { $($key: $neutral,)+ controls: Controls::NONE };
        }

        /// The processors in the order in which they are applied.
        pub const PROCESSORS: &[Processor] = &[$(
            Processor {
                setting: Param::$kind(stringify!($key), $neutral, $range, $summary)
                    .or(&[$($alias),*]),
                get: |params| params.$key.into(),
                set: |params, value| params.$key = number(value) as $type,
            },
        )+];
    };
}

processors! {
    repetition_penalty: f64::number(1.0, 0.001..=1000.0), [],
        "divides positive and multiplies negative logits of tokens in the prompt or completion";
    presence_penalty: f64::number(0.0, -1000.0..=1000.0), [],
        "subtracted from the logits of tokens that occur in the completion";
    frequency_penalty: f64::number(0.0, -1000.0..=1000.0), [],
        "subtracted once per occurrence in the completion";
    temperature: f64::number(1.0, 0.0..=f64::MAX), ["temp"],
        "divides the logits; 0 is greedy (exact argmax, ties to the lowest id)";
    top_k: usize::count(0, 0..=MOST_TOP_K), [],
        "keeps the k most probable tokens; 0 keeps all";
    top_p: f64::number(1.0, f64::MIN_POSITIVE..=1.0), [],
        "keeps the smallest set of most probable tokens with mass >= top_p; 1 keeps all";
    min_p: f64::number(0.0, 0.0..=1.0), [],
        "drops tokens less probable than min_p times the most probable one; 0 keeps all";
}

fn number(value: &Value) -> f64 {
    value.number().unwrap_or(f64::NAN)
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self::NEUTRAL
    }
}

impl SamplingParams {
    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first setting out of range and its allowed values.
    pub fn validate(&self) -> Result<(), BadParam> {
        for p in PROCESSORS {
            p.setting.check(&(p.get)(self)).map(|_| ())?;
        }
        self.controls.validate()
    }

    /// The settings with their keys, in the order of the processors.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, Value)> {
        PROCESSORS.iter().map(|p| (p.setting.key, (p.get)(self)))
    }

    /// The settings that are not neutral.
    pub fn changes(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let neutral = Self::NEUTRAL.settings();
        self.settings().zip(neutral).filter(|(own, neutral)| own != neutral).map(|(own, _)| own)
    }

    /// The settings in words.
    pub fn words(&self) -> String {
        let set = self.changes().map(|(key, value)| match key {
            "temperature" => format!("T = {value}"),
            key => format!("{key} = {value}"),
        });
        let controls = self.controls.set().map(ControlSet::words);
        let set = set.chain(controls).collect::<Vec<_>>().join(", ");
        if set.is_empty() { "T = 1".to_owned() } else { set }
    }

    /// A setting by its key; `None` for an unknown key.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.settings().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The same settings with one of them changed, unchecked; an unknown key changes
    /// nothing.
    #[must_use]
    pub fn with(mut self, key: &str, value: &Value) -> Self {
        if let Some(processor) = PROCESSORS.iter().find(|p| p.setting.key == key) {
            (processor.set)(&mut self, value);
        }
        self
    }

    /// Whether the temperature is 0, so that the distribution has a single token.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// The settings that have a column in tables, without lists.
    #[must_use]
    pub fn columns(&self) -> Self {
        Self { controls: Controls::NONE, ..self.clone() }
    }

    /// The controls and penalties alone; everything after them is neutral.
    #[must_use]
    pub fn logit_processors(&self) -> Self {
        let (repetition_penalty, controls) = (self.repetition_penalty, self.controls.clone());
        let Self { presence_penalty, frequency_penalty, .. } = *self;
        Self { controls, repetition_penalty, presence_penalty, frequency_penalty, ..Self::NEUTRAL }
    }

    pub(super) fn penalises(&self) -> bool {
        let Self { repetition_penalty, presence_penalty, frequency_penalty, .. } = *self;
        (repetition_penalty, presence_penalty, frequency_penalty) != (1.0, 0.0, 0.0)
    }
}
