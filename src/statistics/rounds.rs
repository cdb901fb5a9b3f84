//! The rounds of a generation, in a few bytes each: a run may have many millions.

use std::ops::AddAssign;

use super::acceptance::Acceptance;
use crate::rows::RoundRow;

/// The counts of a round that statistics need round by round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedRound {
    /// Drafted tokens.
    pub proposed: usize,
    /// Depth of the draft: below `proposed` if it branches.
    pub depth: usize,
    /// Accepted tokens before any cut.
    pub accepted: usize,
    /// Tokens that the text grew by.
    pub emitted: usize,
}

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
}

impl AddAssign for TimeSums {
    fn add_assign(&mut self, other: Self) {
        self.draft += other.draft;
        self.target += other.target;
        self.verify += other.verify;
        self.other += other.other;
    }
}

/// The rounds of a generation: a few counts of each, in order, and sums of the rest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rounds {
    /// The fields of [`CountedRound`]: no other statistic depends on single rounds, and
    /// drafts have far fewer tokens than two bytes can count.
    counts: Vec<[u16; 4]>,
    /// Sums of counts and overlaps.
    pub acceptance: Acceptance,
    /// Sums of times.
    pub times: TimeSums,
    /// Sum of the residual distributions that rounding left without mass.
    pub residual_fallbacks: usize,
}

impl Rounds {
    /// Adds the next round. Returns false, and adds nothing, if it has more tokens than
    /// any draft.
    pub fn add(&mut self, row: &RoundRow) -> bool {
        let counts = [row.proposed, row.depth, row.accepted, row.emitted];
        let counts = counts.map(|count| u16::try_from(count).ok());
        let [Some(proposed), Some(depth), Some(accepted), Some(emitted)] = counts else {
            return false;
        };
        self.counts.push([proposed, depth, accepted, emitted]);
        self.acceptance += Acceptance::of([row]);
        self.times += TimeSums {
            draft: row.draft_us,
            target: row.target_us,
            verify: row.verify_us,
            other: row.other_us,
        };
        self.residual_fallbacks += row.residual_fallbacks;
        true
    }

    /// Gives back memory that was set aside for further rounds.
    pub fn end(&mut self) {
        // Shrinking may leave a list in its place, with up to twice the memory.
        self.counts = self.counts.as_slice().to_vec();
    }

    /// The number of rounds.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is no round.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The counts of each round, in order.
    pub fn iter(&self) -> impl Iterator<Item = CountedRound> {
        self.counts.iter().map(|counts| {
            let [proposed, depth, accepted, emitted] = counts.map(usize::from);
            CountedRound { proposed, depth, accepted, emitted }
        })
    }
}
