//! The measurements of a simulation.

use super::policy::ServedRound;
use crate::measure::statistics::quantile;

/// A finished request; times are in ms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ServedRequest {
    /// Its number, in the order of arrival.
    pub number: usize,
    /// Index of its sequence among those of the server.
    pub sequence: usize,
    /// When it arrived.
    pub arrived: f64,
    /// When its prompt was read.
    pub prefilled: f64,
    /// When its first round ended.
    pub first: f64,
    /// When its completion ended.
    pub finished: f64,
    /// Tokens of its completion.
    pub tokens: usize,
}

/// The outcome of a simulation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServedRun {
    /// The requests, in the order in which they finished.
    pub requests: Vec<ServedRequest>,
    /// Number of steps in which a request decoded.
    pub steps: usize,
    /// Number of rounds.
    pub rounds: usize,
    /// Drafted tokens.
    pub drafted: usize,
    /// Accepted tokens.
    pub accepted: usize,
    /// The time of all steps, in ms.
    pub busy_ms: f64,
    emitted: usize,
    loaded_tokens: usize,
    loaded_ms: f64,
}

impl ServedRun {
    pub(super) fn step(&mut self, rounds: &[ServedRound], ms: f64) {
        self.steps += usize::from(!rounds.is_empty());
        self.rounds += rounds.len();
        self.drafted += rounds.iter().map(|round| round.drafted).sum::<usize>();
        self.accepted += rounds.iter().map(|round| round.accepted).sum::<usize>();
        self.emitted += rounds.iter().map(|round| round.emitted).sum::<usize>();
        self.busy_ms += ms;
    }

    /// Tokens of all completions.
    pub fn tokens(&self) -> usize {
        self.requests.iter().map(|request| request.tokens).sum()
    }

    /// Notes that requests are still to be taken.
    pub(super) fn loaded_until(&mut self, now: f64) {
        (self.loaded_tokens, self.loaded_ms) = (self.emitted, now);
    }

    /// Tokens, and the time in ms that they took, until the last request was taken. What follows
    /// depends on the longest completion. If all requests were taken at once, the whole simulation
    /// counts.
    pub fn under_load(&self) -> (f64, f64) {
        if self.loaded_tokens > 0 {
            return (self.loaded_tokens as f64, self.loaded_ms);
        }
        (self.emitted as f64, self.span_ms())
    }

    /// The time until the last completion ended, in ms.
    pub fn span_ms(&self) -> f64 {
        self.requests.iter().map(|request| request.finished).fold(0.0, f64::max)
    }

    /// The time of decoding, summed over requests, in ms: from the end of reading the prompt to the
    /// end of the completion.
    pub fn decode_ms(&self) -> f64 {
        self.requests.iter().map(|request| request.finished - request.prefilled).sum()
    }
}

/// Quantiles of a time over requests, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct TimeQuantiles {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
}

impl TimeQuantiles {
    /// The quantiles of a time of each request.
    pub(super) fn of<'r>(
        requests: impl Iterator<Item = &'r ServedRequest>,
        time: fn(&ServedRequest) -> f64,
    ) -> Self {
        let mut times = requests.map(time).collect::<Vec<_>>();
        times.sort_unstable_by(f64::total_cmp);
        let at = |level| quantile(&times, level).unwrap_or_default();
        Self { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
    }
}
