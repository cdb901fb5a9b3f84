//! The additional cost of a method's round over a step of plain decoding, by part.
//!
//! A round emits τ tokens, and a step of plain decoding emits one. If a round took no longer than a
//! step, decoding would be τ times as fast. This is the ceiling of the speedup with these drafts on
//! any engine and processor on which a pass of several rows takes at least as long as a pass of one
//! row. The measured speedup is τ divided by the time of a round in steps.

use super::ratio;
use super::sample::{Sample, acceptance, timed, times};
use super::time_sums::TimeSums;

/// Mean additional times of a cell's rounds over a step, as multiples of a step's time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundCost {
    /// τ: tokens per round.
    pub tokens: f64,
    /// Drafting.
    pub draft: f64,
    /// The target's pass: its rows beyond the first.
    pub rows: f64,
    /// Distributions and verification.
    pub verify: f64,
    /// Everything else.
    pub other: f64,
}

impl RoundCost {
    /// The cost of the timed rounds of a cell, compared with its baseline. `None` if either
    /// has none.
    pub fn of(baseline: &[Sample], cell: &[Sample]) -> Option<Self> {
        let (step, round) = (mean(baseline)?, mean(cell)?);
        let beyond = |part: fn(&TimeSums) -> f64| ratio(part(&round) - part(&step), step.total());
        let tokens = timed(cell).map(|sample| sample.new_tokens).sum::<usize>();
        let rounds = acceptance(timed(cell)).rounds;
        Some(Self {
            tokens: ratio(tokens as f64, rounds as f64)?,
            draft: beyond(|times| times.draft)?,
            rows: beyond(|times| times.target)?,
            verify: beyond(|times| times.verify)?,
            other: beyond(|times| times.other)?,
        })
    }

    /// The mean time of a round, in steps.
    pub fn steps(&self) -> f64 {
        1.0 + self.draft + self.rows + self.verify + self.other
    }
}

fn mean(samples: &[Sample]) -> Option<TimeSums> {
    let rounds = acceptance(timed(samples)).rounds;
    let sums = times(timed(samples));
    let per_round = |us: f64| ratio(us, rounds as f64);
    Some(TimeSums {
        draft: per_round(sums.draft)?,
        target: per_round(sums.target)?,
        verify: per_round(sums.verify)?,
        other: per_round(sums.other)?,
    })
}
