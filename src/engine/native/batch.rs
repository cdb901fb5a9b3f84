//! Which rows of which sequences are computed in one pass.

use std::ops::Range;

/// Tokens of one sequence, by their places in its step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PassRows {
    pub sequence: usize,
    pub rows: Range<usize>,
}

/// Passes of at most `most` rows over sequences with `lengths` tokens to compute, in their
/// order: only the last part of a pass continues in the next one.
pub(super) fn passes(lengths: &[usize], most: usize) -> Vec<Vec<PassRows>> {
    let mut passes = vec![Vec::new()];
    let mut left = most;
    for (sequence, &length) in lengths.iter().enumerate() {
        let mut begin = 0;
        while begin < length {
            if left == 0 {
                passes.push(Vec::new());
                left = most;
            }
            let rows = begin..length.min(begin + left);
            (begin, left) = (rows.end, left - rows.len());
            if let Some(pass) = passes.last_mut() {
                pass.push(PassRows { sequence, rows });
            }
        }
    }
    passes.retain(|pass| !pass.is_empty());
    passes
}
