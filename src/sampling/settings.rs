//! The processors and their settings, each declared once: its key, its range, its
//! neutral value, and the field that holds it. Code that lists, checks, sweeps or names
//! sampling settings iterates over [`PROCESSORS`].

use serde::{Deserialize, Serialize};

use crate::params::{BadParam, Param, Value};

/// The processors in the order in which they are applied.
pub const ORDER: &str =
    "repetition_penalty>presence_penalty>frequency_penalty>temperature>top_k>top_p>min_p";

/// One processor.
#[derive(Debug, Clone, Copy)]
pub struct Processor {
    /// Its setting; the default is neutral.
    pub setting: Param,
    get: fn(&SamplingParams) -> Value,
    set: fn(&mut SamplingParams, &Value),
}

/// The largest `top_k`, far above any vocabulary size.
pub const MOST_TOP_K: usize = 1 << 30;

/// The processors of [`ORDER`], in that order.
pub const PROCESSORS: &[Processor] = &[
    Processor {
        setting: Param::number(
            "repetition_penalty",
            1.0,
            f64::MIN_POSITIVE..=f64::MAX,
            "divides positive and multiplies negative logits of tokens in prompt or continuation",
        ),
        get: |s| Value::Number(s.repetition_penalty),
        set: |s, value| s.repetition_penalty = number(value),
    },
    Processor {
        setting: Param::number(
            "presence_penalty",
            0.0,
            f64::MIN..=f64::MAX,
            "subtracted from the logits of tokens that occur in the continuation",
        ),
        get: |s| Value::Number(s.presence_penalty),
        set: |s, value| s.presence_penalty = number(value),
    },
    Processor {
        setting: Param::number(
            "frequency_penalty",
            0.0,
            f64::MIN..=f64::MAX,
            "subtracted once per occurrence in the continuation",
        ),
        get: |s| Value::Number(s.frequency_penalty),
        set: |s, value| s.frequency_penalty = number(value),
    },
    Processor {
        setting: Param::number(
            "temperature",
            1.0,
            0.0..=f64::MAX,
            "divides the logits; 0 is greedy (exact argmax, ties to the lowest id)",
        )
        .or(&["temp"]),
        get: |s| Value::Number(s.temperature),
        set: |s, value| s.temperature = number(value),
    },
    Processor {
        setting: Param::count("top_k", 0, 0..=MOST_TOP_K, "keeps the k most probable tokens"),
        get: |s| Value::Count(s.top_k),
        set: |s, value| s.top_k = number(value) as usize,
    },
    Processor {
        setting: Param::number(
            "top_p",
            1.0,
            f64::MIN_POSITIVE..=1.0,
            "keeps the smallest set of most probable tokens with mass >= top_p",
        ),
        get: |s| Value::Number(s.top_p),
        set: |s, value| s.top_p = number(value),
    },
    Processor {
        setting: Param::number(
            "min_p",
            0.0,
            0.0..=1.0,
            "drops tokens less probable than min_p times the most probable one",
        ),
        get: |s| Value::Number(s.min_p),
        set: |s, value| s.min_p = number(value),
    },
];

fn number(value: &Value) -> f64 {
    value.number().unwrap_or(f64::NAN)
}

/// How logits become a distribution; all fields have neutral defaults.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingParams {
    /// Divides the logits; 0 means greedy.
    pub temperature: f64,
    /// Keep the k most probable tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the smallest set of most probable tokens with mass ≥ top_p.
    pub top_p: f64,
    /// Drop tokens less probable than min_p × the most probable one.
    pub min_p: f64,
    /// Divides positive and multiplies negative logits of tokens that occur in
    /// the prompt or the continuation (Keskar et al. 2019, arXiv 1909.05858).
    pub repetition_penalty: f64,
    /// Subtracted from the logits of tokens that occur in the continuation.
    pub presence_penalty: f64,
    /// Subtracted once per occurrence in the continuation.
    pub frequency_penalty: f64,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self::NEUTRAL
    }
}

impl SamplingParams {
    /// Settings that change nothing.
    pub const NEUTRAL: Self = Self {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        repetition_penalty: 1.0,
        presence_penalty: 0.0,
        frequency_penalty: 0.0,
    };

    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first setting out of range and what is allowed.
    pub fn validate(&self) -> Result<(), BadParam> {
        PROCESSORS.iter().try_for_each(|p| p.setting.check(&(p.get)(self)).map(|_| ()))
    }

    /// The settings with their keys, in the order of the processors.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, Value)> {
        PROCESSORS.iter().map(|p| (p.setting.key, (p.get)(self)))
    }

    /// The settings that are not neutral.
    pub fn changes(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let neutral = |(p, (_, value)): &(&Processor, (_, Value))| {
            p.setting.default().as_ref() == Some(value)
        };
        let all = PROCESSORS.iter().zip(self.settings());
        all.filter(move |pair| !neutral(pair)).map(|(_, setting)| setting)
    }

    /// A setting by its key; `None` if there is none of this name.
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

    pub(super) fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0
            || self.presence_penalty != 0.0
            || self.frequency_penalty != 0.0
    }
}
