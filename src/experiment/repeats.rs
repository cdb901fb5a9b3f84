//! Which disturbed blocks are run again.

use std::collections::BTreeMap;

use crate::machine::Disturbance;
use crate::rows::BlockRow;

/// With a larger share of disturbed blocks no verdict is given.
pub const MOST_DISTURBED: f64 = 0.1;

/// How often a block is run at the most.
const ATTEMPTS: u32 = 3;

/// A run repeats at most one block in so many, though [`FEW`] always may be.
const ONE_IN: usize = 4;
const FEW: usize = 4;

/// How disturbed a block was.
pub(super) fn of(block: &BlockRow) -> Disturbance {
    Disturbance {
        waiting: block.waiting_share,
        others: block.others_share,
        stolen: block.stolen_share,
    }
}

/// The blocks to run again, the most disturbed first, until the repetitions of a
/// run are used up. `all` are the rows of `blocks.csv`, the superseded ones
/// included.
pub(super) fn again(all: &[BlockRow]) -> Vec<usize> {
    let mut attempts = BTreeMap::<usize, u32>::new();
    for row in all {
        let most = attempts.entry(row.block).or_default();
        *most = row.attempt.max(*most);
    }
    let spent = attempts.values().map(|&most| most as usize).sum::<usize>();
    let most = (attempts.len() / ONE_IN).max(FEW);
    let may =
        |row: &&BlockRow| row.disturbed && !row.superseded && attempts[&row.block] + 1 < ATTEMPTS;
    let mut blocks = all.iter().filter(may).collect::<Vec<_>>();
    blocks.sort_by(|a, b| of(b).share().total_cmp(&of(a).share()));
    blocks.into_iter().map(|row| row.block).take(most.saturating_sub(spent)).collect()
}
