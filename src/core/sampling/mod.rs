//! Turns logits into distributions, with the same code for draft rows, target rows and the plain
//! baseline.
//!
//! The order of the processors is fixed and part of a cell's identity
//! ([`PROCESSORS`]): changing it changes the distribution. A temperature of zero is exact
//! argmax (ties to the lowest id), not a small temperature.

mod controls;
mod grammar;
mod settings;
mod truncate;
mod vector;

pub use controls::{ControlSet, Controls};
pub use grammar::{Grammar, GrammarKind, TokenRules, TokenSet};
pub use settings::{MOST_TOP_K, PROCESSORS, Processor, SamplingParams};
pub(crate) use truncate::{log_mass, log_mass_and_best};

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use crate::core::distribution::{Dist, DistError, Token};
use crate::core::params::BadParam;

/// Below this total number of logits, one thread computes all distributions: it finishes
/// before a second thread could start.
const ONE_THREAD: usize = 1 << 16;

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

    /// The difference between the two largest scores, by which a greedy decision misses a tie.
    /// Infinite if only one token is possible.
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

/// The tokens before a position, which determine the penalties. For row `i` of a draft
/// they include the drafted tokens before it; using the committed ones alone would be
/// inexact.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    /// Number of prompt tokens at the start of `context`.
    pub prompt_len: usize,
    /// Prompt and committed tokens.
    pub context: &'a [Token],
    /// Drafted tokens after the context.
    pub drafted: &'a [Token],
}

impl History<'_> {
    /// The tokens of the completion.
    fn completion(&self) -> Vec<Token> {
        [self.context.get(self.prompt_len..).unwrap_or_default(), self.drafted].concat()
    }
}

/// Turns logits into distributions with fixed settings.
#[derive(Debug, Clone)]
pub struct Sampler {
    params: SamplingParams,
    for_each: ForEachRow,
}

/// A processing step and the distribution after it, for display.
#[derive(Debug, Clone)]
pub struct Stage {
    /// Name of the processor.
    pub name: &'static str,
    /// The distribution after it.
    pub dist: Dist,
}

impl Sampler {
    /// A sampler with checked settings.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(params: SamplingParams) -> Result<Self, BadParam> {
        params.validate()?;
        params.controls.check_compiled()?;
        Ok(Self { params, for_each: ForEachRow::default() })
    }

    /// The same sampler, spreading the rows of [`Self::distributions`] over threads.
    #[must_use]
    pub fn on(self, for_each: ForEachRow) -> Self {
        Self { for_each, ..self }
    }

    /// The settings.
    pub fn params(&self) -> &SamplingParams {
        &self.params
    }

    /// The processed distribution at a position with these logits and this history.
    ///
    /// # Errors
    /// If a logit is NaN or +inf, or no token is possible.
    pub fn distribution(&self, logits: &Logits, history: History<'_>) -> Result<Dist, DistError> {
        let found = truncate::distribution(&*self.scores(logits, history)?, &self.params);
        found.map_err(|error| match error {
            DistError::NothingPossible if !self.params.controls.is_none() => {
                DistError::NothingAllowed
            }
            error => error,
        })
    }

    /// The distribution from which a token is drafted: without the controls where they leave none of
    /// the tokens that a drafter knows.
    ///
    /// # Errors
    /// As [`Self::distribution`].
    pub fn drafting(&self, logits: &Logits, history: History<'_>) -> Result<Dist, DistError> {
        match self.distribution(logits, history) {
            Err(DistError::NothingAllowed) => {
                let params = SamplingParams { controls: Controls::NONE, ..self.params.clone() };
                Self { params, for_each: self.for_each }.distribution(logits, history)
            }
            found => found,
        }
    }

    /// The token that a grammar leaves alone, if there is one: no logits are needed for it.
    ///
    /// # Errors
    /// If a grammar cannot be followed.
    pub fn forced(&self, history: History<'_>) -> Result<Option<Token>, DistError> {
        self.params.controls.forced(history)
    }

    /// The logits after controls and penalties: greedy decoding takes the largest.
    ///
    /// # Errors
    /// If a grammar cannot be followed.
    pub fn scores<'l>(
        &self,
        logits: &'l Logits,
        history: History<'_>,
    ) -> Result<Cow<'l, Logits>, DistError> {
        let mut scores = self.controlled(logits, history)?;
        if self.params.penalises() {
            self.penalise(scores.to_mut(), history);
        }
        Ok(scores)
    }

    fn controlled<'l>(
        &self,
        logits: &'l Logits,
        history: History<'_>,
    ) -> Result<Cow<'l, Logits>, DistError> {
        if self.params.controls.is_none() {
            return Ok(Cow::Borrowed(logits));
        }
        let mut scores = logits.clone();
        self.params.controls.apply(&mut scores, history)?;
        Ok(Cow::Owned(scores))
    }

    /// The distributions at several positions, each equal to that of
    /// [`Self::distribution`]. Large batches are spread over threads.
    ///
    /// # Errors
    /// As [`Self::distribution`], for the first position that fails.
    pub fn distributions(
        &self,
        positions: &[(&Logits, History<'_>)],
    ) -> Result<Vec<Dist>, DistError> {
        let work = positions.iter().map(|(logits, _)| logits.len()).sum::<usize>();
        if work < ONE_THREAD || self.params.is_greedy() {
            return positions
                .iter()
                .map(|(logits, history)| self.distribution(logits, *history))
                .collect();
        }
        let dist = |at: usize| self.distribution(positions[at].0, positions[at].1);
        self.for_each.map(positions.len(), dist).into_iter().collect()
    }

    /// The distribution after each processor in turn, beginning with the plain softmax.
    ///
    /// # Errors
    /// As [`Self::distribution`].
    pub fn stages(&self, logits: &Logits, history: History<'_>) -> Result<Vec<Stage>, DistError> {
        let neutral = SamplingParams::NEUTRAL;
        let stage = |name, scores: &Logits, shown: &SamplingParams| {
            Ok::<_, DistError>(Stage { name, dist: truncate::distribution(scores, shown)? })
        };
        let mut stages = vec![stage("softmax", logits, &neutral)?];
        let scores = self.scores(logits, history)?;
        if !self.params.controls.is_none() {
            stages.push(stage("controls", &*self.controlled(logits, history)?, &neutral)?);
        }
        if self.params.penalises() {
            stages.push(stage("penalties", &scores, &neutral)?);
        }
        let mut shown = neutral;
        for (name, value) in self.params.changes() {
            if self.params.logit_processors().get(name).as_ref() == Some(&value) {
                continue;
            }
            shown = shown.with(name, &value);
            stages.push(stage(name, &scores, &shown)?);
            if shown.is_greedy() {
                break;
            }
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

/// Spreads the rows of a pass over threads: the caller's thread alone, or those of an engine. The
/// function calls `work(i)` once for every `i` below the number of rows, in any order and on any
/// threads, and returns when all calls are done.
#[derive(Debug, Clone, Copy)]
pub struct ForEachRow(pub fn(usize, &(dyn Fn(usize) + Sync)));

impl ForEachRow {
    /// What `work` yields for each row, in order.
    pub(crate) fn map<T: Send>(self, rows: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let done = (0..rows).map(|_| Mutex::new(None)).collect::<Vec<_>>();
        (self.0)(rows, &|row| {
            let value = work(row);
            *done[row].lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        });
        let value =
            |cell: Mutex<Option<T>>| cell.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.into_iter().filter_map(value).collect()
    }

    /// Calls `work` with the number of each item and the item.
    pub(crate) fn change<T: Send>(self, items: &mut [T], work: impl Fn(usize, &mut T) + Sync) {
        let items = items.iter_mut().map(Mutex::new).collect::<Vec<_>>();
        (self.0)(items.len(), &|at| {
            let mut item = items[at].lock().unwrap_or_else(PoisonError::into_inner);
            work(at, &mut item);
        });
    }
}

impl Default for ForEachRow {
    /// One row after the other on the caller's thread.
    fn default() -> Self {
        Self(|rows, work| (0..rows).for_each(work))
    }
}
