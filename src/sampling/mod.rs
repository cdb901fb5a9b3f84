//! From logits to a law: the same code for draft rows, target rows and the
//! plain baseline.
//!
//! The order of the processors is fixed and part of a cell's identity
//! ([`ORDER`]): changing it changes the law. A temperature of zero is exact
//! argmax (ties to the lowest id), not a small temperature.

mod truncate;
mod vector;

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::dist::{Dist, DistError, Token};
use crate::pool::Pool;

/// The processors in the order in which they act.
pub const ORDER: &str =
    "repetition_penalty>presence_penalty>frequency_penalty>temperature>top_k>top_p>min_p";

/// One processor, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Processor {
    /// Name of its setting.
    pub name: &'static str,
    /// What it does to the law.
    pub summary: &'static str,
    /// The value that changes nothing.
    pub neutral: &'static str,
}

/// What the processors of [`ORDER`] do, in that order.
pub const PROCESSORS: &[Processor] = &[
    Processor {
        name: "repetition_penalty",
        summary: "divides positive and multiplies negative logits of tokens in prompt or continuation",
        neutral: "1",
    },
    Processor {
        name: "presence_penalty",
        summary: "subtracted from the logits of tokens that occur in the continuation",
        neutral: "0",
    },
    Processor {
        name: "frequency_penalty",
        summary: "subtracted once per occurrence in the continuation",
        neutral: "0",
    },
    Processor {
        name: "temperature",
        summary: "divides the logits; 0 is greedy (exact argmax, ties to the lowest id)",
        neutral: "1",
    },
    Processor { name: "top_k", summary: "keeps the k most probable tokens", neutral: "0" },
    Processor {
        name: "top_p",
        summary: "keeps the smallest set of most probable tokens with mass >= top_p",
        neutral: "1",
    },
    Processor {
        name: "min_p",
        summary: "drops tokens less probable than min_p times the most probable one",
        neutral: "0",
    },
];

/// Logits that one thread turns into laws alone: fewer are done before another
/// has come to help.
const ALONE: usize = 1 << 16;

/// Scores of all tokens at one position, as a model returns them.
#[derive(Debug, Clone, PartialEq)]
pub enum Logits {
    /// Of a real model.
    F32(Vec<f32>),
    /// Of a toy model.
    F64(Vec<f64>),
}

impl Logits {
    /// Number of tokens.
    pub fn len(&self) -> usize {
        match self {
            Logits::F32(x) => x.len(),
            Logits::F64(x) => x.len(),
        }
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The score of one token.
    pub fn get(&self, token: Token) -> f64 {
        match self {
            Logits::F32(x) => f64::from(x[token as usize]),
            Logits::F64(x) => x[token as usize],
        }
    }

    /// The tokens with the largest scores, at most `count`, best first; ties go
    /// to the lowest id, and impossible tokens are left out.
    pub fn largest(&self, count: usize) -> Vec<Token> {
        let mut best = Vec::<(Token, f64)>::with_capacity(count + 1);
        for token in 0..self.len() as Token {
            let score = self.get(token);
            let last = best.last().map_or(f64::INFINITY, |&(_, worst)| worst);
            let bound = if best.len() < count { f64::NEG_INFINITY } else { last };
            if score > bound {
                let at = best.partition_point(|(_, other)| *other >= score);
                best.insert(at, (token, score));
                best.truncate(count);
            }
        }
        best.into_iter().map(|(token, _)| token).collect()
    }

    fn set(&mut self, token: Token, value: f64) {
        match self {
            Logits::F32(x) => x[token as usize] = value as f32,
            Logits::F64(x) => x[token as usize] = value,
        }
    }

    /// The distance between the two largest scores: how near a greedy decision
    /// is to a tie. Infinite if only one token is possible.
    pub fn top2_gap(&self) -> f64 {
        let (mut first, mut second) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for token in 0..self.len() as Token {
            let x = self.get(token);
            if x > first {
                (first, second) = (x, first);
            } else if x > second {
                second = x;
            }
        }
        first - second
    }
}

/// How a law is made from logits; all fields have neutral defaults.
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

/// A sampling setting outside its range.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{key} = {value} is out of range: allowed is {allowed}")]
pub struct RangeError {
    /// The setting.
    pub key: &'static str,
    /// Its value.
    pub value: f64,
    /// What would have been accepted.
    pub allowed: &'static str,
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
    pub fn validate(&self) -> Result<(), RangeError> {
        let check = |ok: bool, key, value, allowed| {
            if ok { Ok(()) } else { Err(RangeError { key, value, allowed }) }
        };
        let t = self.temperature;
        check(t.is_finite() && t >= 0.0, "temperature", t, "a finite number >= 0 (0 is greedy)")?;
        check(self.top_p > 0.0 && self.top_p <= 1.0, "top_p", self.top_p, "0 < top_p <= 1")?;
        check((0.0..=1.0).contains(&self.min_p), "min_p", self.min_p, "0 <= min_p <= 1")?;
        let r = self.repetition_penalty;
        check(r.is_finite() && r > 0.0, "repetition_penalty", r, "a finite number > 0")?;
        let (p, f) = (self.presence_penalty, self.frequency_penalty);
        check(p.is_finite(), "presence_penalty", p, "a finite number")?;
        check(f.is_finite(), "frequency_penalty", f, "a finite number")
    }

    /// Whether the law is a single token.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0
            || self.presence_penalty != 0.0
            || self.frequency_penalty != 0.0
    }
}

/// The tokens before a position: the penalties look at them. For row `i` of a
/// draft this includes the drafted tokens before it; using the committed ones
/// alone would be inexact.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    /// Number of prompt tokens at the start of `context`.
    pub prompt_len: usize,
    /// Prompt and committed continuation.
    pub context: &'a [Token],
    /// Drafted tokens after the context.
    pub drafted: &'a [Token],
}

/// Turns logits into laws by fixed settings.
#[derive(Debug, Clone)]
pub struct Sampler {
    params: SamplingParams,
}

/// One processing step and the law after it, for showing how a law is made.
#[derive(Debug, Clone)]
pub struct Stage {
    /// Name of the processor.
    pub name: &'static str,
    /// The law after it.
    pub law: Dist,
}

impl Sampler {
    /// A sampler with checked settings.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(params: SamplingParams) -> Result<Self, RangeError> {
        params.validate()?;
        Ok(Self { params })
    }

    /// The settings.
    pub fn params(&self) -> &SamplingParams {
        &self.params
    }

    /// The processed law at a position with these logits and this history.
    ///
    /// # Errors
    /// If a logit is NaN or +inf, or no token is possible.
    pub fn law(&self, logits: &Logits, history: History<'_>) -> Result<Dist, DistError> {
        if !self.params.penalises() {
            return truncate::law(logits, &self.params);
        }
        let mut scores = logits.clone();
        self.penalise(&mut scores, history);
        truncate::law(&scores, &self.params)
    }

    /// The laws of several positions, each as [`Self::law`] gives it; large ones
    /// are computed on all threads.
    ///
    /// # Errors
    /// As [`Self::law`], of the first position at fault.
    pub fn laws(&self, positions: &[(&Logits, History<'_>)]) -> Result<Vec<Dist>, DistError> {
        let work = positions.iter().map(|(logits, _)| logits.len()).sum::<usize>();
        if work < ALONE || self.params.is_greedy() {
            return positions.iter().map(|(logits, history)| self.law(logits, *history)).collect();
        }
        let laws = positions.iter().map(|_| Mutex::new(None)).collect::<Vec<_>>();
        Pool::shared().run(&|worker| {
            worker.share(laws.len(), |i| {
                let (logits, history) = positions[i];
                let law = self.law(logits, history);
                *laws[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(law);
            })
        });
        let law =
            |cell: Mutex<Option<_>>| cell.into_inner().unwrap_or_else(PoisonError::into_inner);
        laws.into_iter().filter_map(law).collect()
    }

    /// The law after each processor in turn, beginning with the plain softmax.
    ///
    /// # Errors
    /// As [`Self::law`].
    pub fn stages(&self, logits: &Logits, history: History<'_>) -> Result<Vec<Stage>, DistError> {
        let mut shown = SamplingParams::default();
        let mut scores = logits.clone();
        let mut stages = vec![Stage { name: "softmax", law: truncate::law(&scores, &shown)? }];
        if self.params.penalises() {
            self.penalise(&mut scores, history);
            stages.push(Stage { name: "penalties", law: truncate::law(&scores, &shown)? });
        }
        let mut step = |name, active: bool, shown: &SamplingParams| {
            if active {
                stages.push(Stage { name, law: truncate::law(&scores, shown)? });
            }
            Ok::<_, DistError>(())
        };
        shown.temperature = self.params.temperature;
        step("temperature", shown.temperature != 1.0, &shown)?;
        if !self.params.is_greedy() {
            shown.top_k = self.params.top_k;
            step("top_k", shown.top_k != 0, &shown)?;
            shown.top_p = self.params.top_p;
            step("top_p", shown.top_p < 1.0, &shown)?;
            shown.min_p = self.params.min_p;
            step("min_p", shown.min_p > 0.0, &shown)?;
        }
        Ok(stages)
    }

    fn penalise(&self, scores: &mut Logits, history: History<'_>) {
        let vocab = scores.len();
        let mut seen = vec![false; vocab];
        let mut count = vec![0u32; vocab];
        let all = history.context.iter().chain(history.drafted);
        for (i, &token) in all.enumerate() {
            if (token as usize) < vocab {
                seen[token as usize] = true;
                count[token as usize] += u32::from(i >= history.prompt_len);
            }
        }
        let params = &self.params;
        for token in (0..vocab).filter(|&t| seen[t]) {
            let mut x = scores.get(token as Token);
            x = if x > 0.0 { x / params.repetition_penalty } else { x * params.repetition_penalty };
            if count[token] > 0 {
                x -= params.presence_penalty + params.frequency_penalty * f64::from(count[token]);
            }
            scores.set(token as Token, x);
        }
    }
}
