//! The rounds of a generation in a few bytes each, because a run may have many millions.

use super::acceptance::Acceptance;
use super::row_sums::{RowSums, add_rows};
use super::time_sums::TimeSums;
use crate::measure::rows::RoundRow;

/// The counts of one round that statistics need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedRound {
    /// Drafted tokens.
    pub proposed: usize,
    /// Depth of the draft: below `proposed` if it branches.
    pub depth: usize,
    /// Accepted tokens, up to the end of the completion.
    pub accepted: usize,
    /// Emitted tokens.
    pub emitted: usize,
}

impl CountedRound {
    /// The number of positions at which the round emitted a token or would have been allowed to: the
    /// accepted ones and, unless the completion ends with the last of these, the next one.
    pub fn entered(&self) -> usize {
        self.accepted + usize::from(self.emitted > self.accepted)
    }
}

/// The rounds of a generation: a few counts of each, in order, and sums of the rest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rounds {
    /// The fields of [`CountedRound`]. No other statistic depends on single rounds. Two bytes are
    /// enough for the tokens of a draft.
    counts: Vec<[u16; 4]>,
    /// Sums by the number of rows, of which a generation has few.
    by_rows: Vec<RowSums>,
    /// Tokens before the first round.
    pub begin: usize,
    /// Sums of counts and overlaps.
    pub acceptance: Acceptance,
    /// Sums of times.
    pub times: TimeSums,
    /// Number of residual distributions that rounding left without mass.
    pub residual_fallbacks: usize,
}

impl Rounds {
    /// Adds the next round. Returns false, and adds nothing, if it has more tokens than
    /// any draft.
    pub fn add(&mut self, row: &RoundRow) -> bool {
        let counts = [row.proposed, row.depth, row.kept(), row.emitted];
        let counts = counts.map(|count| u16::try_from(count).ok());
        let [Some(proposed), Some(depth), Some(accepted), Some(emitted)] = counts else {
            return false;
        };
        if self.counts.is_empty() {
            self.begin = row.context_tokens;
        }
        self.counts.push([proposed, depth, accepted, emitted]);
        self.acceptance += Acceptance::of([row]);
        let times = TimeSums {
            draft: row.draft_us,
            target: row.target_us,
            verify: row.verify_us,
            other: row.other_us,
        };
        self.times += times;
        let sums = RowSums::of(row.proposed + 1, row.context_tokens, times);
        let experts = row.experts.unwrap_or(0) as f64;
        add_rows(&mut self.by_rows, RowSums { experts, ..sums });
        self.residual_fallbacks += row.residual_fallbacks;
        true
    }

    /// Frees memory that was reserved for further rounds.
    pub fn end(&mut self) {
        exactly(&mut self.counts);
        exactly(&mut self.by_rows);
    }

    /// The number of rounds.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is no round.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Sums over the rounds with the same number of rows, by that number.
    pub fn by_rows(&self) -> &[RowSums] {
        &self.by_rows
    }

    /// The counts of each round, in order.
    pub fn iter(&self) -> impl Iterator<Item = CountedRound> {
        self.counts.iter().map(|counts| {
            let [proposed, depth, accepted, emitted] = counts.map(usize::from);
            CountedRound { proposed, depth, accepted, emitted }
        })
    }
}

/// Moves a list to an allocation of exactly its length. Shrinking in place may keep up to twice the
/// memory.
fn exactly<T: Copy>(list: &mut Vec<T>) {
    if list.len() < list.capacity() {
        *list = list.as_slice().to_vec();
    }
}
