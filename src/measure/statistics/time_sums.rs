//! The times of rounds by part.

use std::ops::AddAssign;

/// The times of some rounds, in µs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TimeSums {
    /// Drafting.
    pub draft: f64,
    /// Target passes.
    pub target: f64,
    /// Distributions and verification.
    pub verify: f64,
    /// Everything else.
    pub other: f64,
}

impl TimeSums {
    /// The sum of all parts.
    pub fn total(&self) -> f64 {
        self.draft + self.target + self.verify + self.other
    }

    /// All parts multiplied by a factor.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        Self {
            draft: factor * self.draft,
            target: factor * self.target,
            verify: factor * self.verify,
            other: factor * self.other,
        }
    }
}

impl AddAssign for TimeSums {
    fn add_assign(&mut self, other: Self) {
        self.draft += other.draft;
        self.target += other.target;
        self.verify += other.verify;
        self.other += other.other;
    }
}
