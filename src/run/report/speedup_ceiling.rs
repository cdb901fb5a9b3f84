//! The ceiling of every measured speedup, and what keeps the method below it.

use super::document::{DocBlock, TableCell};
use super::run::Run;
use super::tables::{columns, lines, number};
use crate::measure::statistics::RoundCost;

/// One line per cell with measured times. Empty if there is none.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let head = columns(&[
        "ceiling τ:",
        "speedup:",
        "share of ceiling:",
        "a round in steps:",
        "draft:",
        "more rows:",
        "verification:",
        "other:",
    ]);
    let table = lines(run.drafted(), |cell| {
        let cost = RoundCost::of(run.baseline(cell), &cell.samples)?;
        let parts = [cost.steps(), cost.draft, cost.rows, cost.verify, cost.other];
        let share = cell.row.speedup.map(|speedup| TableCell::percent(speedup / cost.tokens, 0));
        let mut line = vec![
            number(Some(cost.tokens), 2),
            number(cell.row.speedup, 2),
            share.unwrap_or_else(|| number(None, 0)),
        ];
        line.extend(parts.map(|part| number(Some(part), 2)));
        Some(line)
    });
    DocBlock::section(
        "Ceiling of the speedup",
        "If drafting, rows beyond the first and verification took no time, a round would take \
         as long as a step of plain decoding, and the speedup would be τ, the tokens of a \
         round. What a round takes beyond that step is listed in steps; the speedup is τ \
         divided by the whole. Parts below 0 cost less than in plain decoding.",
        &head,
        table,
    )
}
