//! Acceptance inside and outside of what the target thinks before it answers.

use std::path::Path;

use anyhow::Result;

use super::document::DocBlock;
use super::results::Results;
use super::series::{Series, columns};
use super::tables::{ends, number, with_interval, write_csv};
use crate::experiment::Cell;
use crate::rows::ThinkingRow;
use crate::statistics::{thinking_efficiency, thinking_rounds};

/// The rows of `thinking.csv`, inside before outside; empty if no completion has any thinking.
fn rows(results: &Results) -> Vec<ThinkingRow> {
    if results.samples.values().flatten().all(|sample| sample.thinking.is_none()) {
        return Vec::new();
    }
    let cells = results.plan.cells.iter().filter(|cell| !cell.is_baseline());
    cells.flat_map(|cell| [true, false].map(|inside| row(results, cell, inside))).collect()
}

fn row(results: &Results, cell: &Cell, inside: bool) -> ThinkingRow {
    let samples = results.samples(&cell.id);
    let sums = thinking_rounds(samples, inside);
    let tau = thinking_efficiency(samples, inside);
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

/// Writes `thinking.csv` if any completion has thinking.
pub(super) fn write(folder: &Path, results: &Results) -> Result<()> {
    let rows = rows(results);
    if rows.is_empty() { Ok(()) } else { write_csv(&folder.join("thinking.csv"), &rows) }
}

/// The section with a line per cell; empty if no completion has any thinking.
pub(super) fn section(results: &Results, series: &[Series<'_>]) -> Vec<DocBlock> {
    let rows = rows(results);
    let cells =
        series.iter().flat_map(|series| series.cells.iter().map(move |cell| (series, cell)));
    let lines = cells.map(|(series, cell)| {
        let own = rows.iter().filter(|row| row.cell == cell.id);
        let own = own.flat_map(|row| {
            let (lo, hi) = (row.block_efficiency_lo, row.block_efficiency_hi);
            [
                row.rounds.into(),
                number(row.acceptance_rate, 3),
                with_interval(row.block_efficiency, lo, hi, 2),
            ]
        });
        series.line(cell).into_iter().chain(own).collect()
    });
    let lines = if rows.is_empty() { Vec::new() } else { lines.collect() };
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
        lines,
    )
}
