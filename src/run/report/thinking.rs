//! Acceptance inside and outside of what the target thinks before it answers.

use std::path::Path;

use anyhow::Result;

use super::document::DocBlock;
use super::run::{CellView, Run};
use super::tables::{columns, ends, lines, number, with_interval, write_csv};
use crate::measure::rows::ThinkingRow;
use crate::measure::statistics::{thinking_efficiency, thinking_rounds};

/// Whether any completion of a run has thinking.
fn thinks(run: &Run) -> bool {
    run.samples().any(|sample| sample.thinking.is_some())
}

fn row(cell: &CellView, inside: bool) -> ThinkingRow {
    let sums = thinking_rounds(&cell.samples, inside);
    let tau = thinking_efficiency(&cell.samples, inside);
    let (block_efficiency_lo, block_efficiency_hi) = ends(tau.interval());
    ThinkingRow {
        cell: cell.id.clone(),
        thinking: inside,
        rounds: sums.rounds,
        proposed: sums.drafted,
        accepted: sums.accepted,
        acceptance_rate: sums.acceptance_rate(),
        block_efficiency: tau.value(),
        block_efficiency_lo,
        block_efficiency_hi,
    }
}

/// Writes `thinking.csv`, inside before outside, if any completion has thinking.
pub(super) fn write(folder: &Path, run: &Run) -> Result<()> {
    let thinks = thinks(run);
    let cells = run.cells.iter().filter(|cell| thinks && !cell.is_baseline());
    let rows = cells.flat_map(|cell| [true, false].map(|inside| row(cell, inside)));
    let rows = rows.collect::<Vec<_>>();
    if rows.is_empty() { Ok(()) } else { write_csv(&folder.join("thinking.csv"), &rows) }
}

/// The section with a line per cell; empty if no completion has any thinking.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let thinks = thinks(run);
    let table = lines(run.drafted().filter(|_| thinks), |cell| {
        let own = [true, false].map(|inside| row(cell, inside)).into_iter().flat_map(|row| {
            let (lo, hi) = (row.block_efficiency_lo, row.block_efficiency_hi);
            [
                row.rounds.into(),
                number(row.acceptance_rate, 3),
                with_interval(row.block_efficiency, lo, hi, 2),
            ]
        });
        Some(own.collect())
    });
    DocBlock::section(
        "Inside and outside of thinking",
        "A round is inside of thinking if its first token is: from the string that opens it, or the \
         beginning of a completion whose prompt has opened it, to the string that closes it.",
        &columns(&[
            "rounds inside:",
            "acceptance rate inside:",
            "τ inside [95 %]:",
            "rounds outside:",
            "acceptance rate outside:",
            "τ outside [95 %]:",
        ]),
        table,
    )
}
