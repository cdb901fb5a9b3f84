//! Sums over rounds by the number of rows of their pass. They suffice for a least-squares fit of
//! times by rows and context, and take a few hundred bytes per generation.

use super::time_sums::TimeSums;
use std::ops::AddAssign;

/// Sums over rounds whose target pass had the same number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RowSums {
    /// The number of rows of the pass: the proposed tokens and one more.
    pub rows: usize,
    /// The number of rounds.
    pub rounds: f64,
    /// Σ context, in tokens.
    pub context: f64,
    /// Σ context².
    pub context_squared: f64,
    /// Σ of the distinct experts of the passes.
    pub experts: f64,
    /// Σ of the times.
    pub times: TimeSums,
    /// Σ context · times.
    pub context_times: TimeSums,
}

impl RowSums {
    /// The sums of a single round without experts.
    pub fn of(rows: usize, context_tokens: usize, times: TimeSums) -> Self {
        let context = context_tokens as f64;
        Self {
            rows,
            rounds: 1.0,
            context,
            context_squared: context * context,
            experts: 0.0,
            times,
            context_times: times.times(context),
        }
    }

    /// The same rounds with all contexts set to zero.
    #[must_use]
    pub fn without_context(&self) -> Self {
        let Self { rows, rounds, times, .. } = *self;
        Self { rows, rounds, times, ..Self::default() }
    }
}

impl AddAssign for RowSums {
    /// Adds the sums of further rounds with the same number of rows.
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.context += other.context;
        self.context_squared += other.context_squared;
        self.experts += other.experts;
        self.times += other.times;
        self.context_times += other.context_times;
    }
}

/// Adds sums to a list that has one entry per number of rows, in ascending order.
pub fn add_rows(list: &mut Vec<RowSums>, sums: RowSums) {
    match list.binary_search_by_key(&sums.rows, |own| own.rows) {
        Ok(at) => list[at] += sums,
        Err(at) => list.insert(at, sums),
    }
}
