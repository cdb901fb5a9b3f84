//! The choice among several completions of one prompt.

use super::Observer;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::core::sampling::log_mass;
use crate::core::tree::Row;

/// The sum of log p of the tokens of a generation, by the target's unprocessed distributions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LogProb(pub f64);

impl Observer for LogProb {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let path = event.verdict.path.iter().map(|&id| Some(id));
        let rows = [None].into_iter().chain(path).map(|at| Row::after(at).number());
        for (row, &token) in rows.zip(event.emitted) {
            self.0 += log_p(event, row, token)?;
        }
        Ok(())
    }
}

fn log_p(event: &RoundEvent<'_>, row: usize, token: Token) -> Result<f64, Error> {
    let logits = &event.logits[row];
    let mass = log_mass(logits).map_err(Error::distribution(super::NO_DISTRIBUTION))?;
    Ok(logits.get(token) - mass)
}

/// The properties of a completion that the choice may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answered<'a> {
    /// The sum of log p of its tokens.
    pub log_prob: f64,
    /// Number of its tokens.
    pub tokens: usize,
    /// Its answer, if it has one.
    pub answer: Option<&'a str>,
}

/// The rule that chooses one of several completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionChoice {
    /// The largest log p.
    LogProb,
    /// The largest log p per token.
    LengthNormalised,
    /// The most frequent answer (self-consistency; Wang et al. 2022, arXiv 2203.11171).
    Majority,
}

impl CompletionChoice {
    /// All rules.
    pub const ALL: [Self; 3] = [Self::LogProb, Self::LengthNormalised, Self::Majority];

    /// The name used on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::LogProb => "logprob",
            Self::LengthNormalised => "length_normalised",
            Self::Majority => "majority",
        }
    }

    /// The index of the chosen completion; among equals, the first. Completions without an answer
    /// do not vote; if none has an answer, the first completion is chosen. `None` without
    /// completions.
    pub fn choose(self, completions: &[Answered<'_>]) -> Option<usize> {
        let score = |completion: &Answered<'_>| match self {
            Self::LogProb => completion.log_prob,
            Self::LengthNormalised => completion.log_prob / completion.tokens.max(1) as f64,
            Self::Majority => votes(completions, completion.answer) as f64,
        };
        let scores = completions.iter().map(score).enumerate();
        scores.rev().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
    }
}

/// The number of completions with this answer; 0 without an answer.
pub fn votes(completions: &[Answered<'_>], answer: Option<&str>) -> usize {
    if answer.is_none() {
        0
    } else {
        completions.iter().filter(|completion| completion.answer == answer).count()
    }
}
