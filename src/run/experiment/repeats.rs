//! Chooses the disturbed blocks that are run again.

use std::collections::BTreeMap;

use crate::measure::rows::BlockRow;

/// With a larger share of disturbed blocks than this, no verdict is given.
pub const MOST_DISTURBED: f64 = 0.1;

/// The number of attempts allowed per block.
const ATTEMPTS: u32 = 3;

/// A run repeats at most one in this many of its blocks, or [`ALWAYS_ALLOWED`] if that
/// is more.
const ONE_IN: usize = 4;

/// The number of repetitions that any run may make.
const ALWAYS_ALLOWED: usize = 4;

/// Returns the blocks to run again, the most disturbed first, as many as the run may
/// still repeat. `all` are the rows of `blocks.csv`, including superseded ones.
pub(super) fn again(all: &[BlockRow]) -> Vec<usize> {
    let mut attempts = BTreeMap::<usize, u32>::new();
    for row in all {
        let most = attempts.entry(row.block).or_default();
        *most = row.attempt.max(*most);
    }
    let spent = attempts.values().map(|&most| most as usize).sum::<usize>();
    let most = (attempts.len() / ONE_IN).max(ALWAYS_ALLOWED);
    let may =
        |row: &&BlockRow| row.disturbed && !row.superseded && attempts[&row.block] + 1 < ATTEMPTS;
    let mut blocks = all.iter().filter(may).collect::<Vec<_>>();
    blocks.sort_by(|a, b| b.disturbance().share().total_cmp(&a.disturbance().share()));
    blocks.into_iter().map(|row| row.block).take(most.saturating_sub(spent)).collect()
}
