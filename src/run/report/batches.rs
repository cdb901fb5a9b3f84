//! Batches: what a completion costs among others, and whether it is the same as alone.

use std::collections::BTreeMap;

use super::document::{DocBlock, TableCell};
use super::run::{CellView, Run};
use super::tables::{columns, lines, number, with_interval};
use crate::measure::statistics::Sample;
use crate::run::experiment::SweepPoint;

/// Plain decoding and then the methods, in every batch. Empty if the run has one completion at a
/// time.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let batched = run.cells.iter().any(|cell| cell.batch > 1);
    let cells = run.baselines().chain(run.drafted()).filter(|_| batched);
    let table = lines(cells, |cell| Some(numbers(run, cell)));
    let head = columns(&[
        "completions at once, mean:",
        "tokens/s:",
        "ms per token:",
        "τ:",
        "speedup in the same batch [95 %]:",
        "completions other than alone:",
    ]);
    DocBlock::section(
        "Batches",
        "The completions of a batch begin together and share their passes until they end, so \
         that fewer remain towards the end of a block. Tokens per second are those of all of \
         them; the time per token is what a reader of one completion waits for. A prompt has \
         the same random numbers in every batch, so that its completion should be the same as \
         alone; the last column counts those that are not. Intervals are over batches, whose \
         prompts share their times, and are given for 8 batches or more.",
        &head,
        table,
    )
}

fn numbers(run: &Run, cell: &CellView) -> Vec<TableCell> {
    let (row, others) = (&cell.row, others(run, cell));
    vec![
        number(row.texts_at_once, 2),
        number(row.tokens_per_second, 1),
        number(row.ms_per_token, 3),
        number(row.block_efficiency, 2),
        with_interval(row.speedup, row.speedup_lo, row.speedup_hi, 2),
        others.map_or_else(|| number(None, 0), |(others, of)| format!("{others} of {of}").into()),
    ]
}

/// How many completions of a cell in a batch are other than those of the same cell without, and
/// of how many; `None` if the plan has no such cell.
fn others(run: &Run, cell: &CellView) -> Option<(usize, usize)> {
    let point = SweepPoint { batch: 1, ..cell.point.clone() };
    let same = |other: &&CellView| other.point == point && other.control == cell.control;
    let alone = run.cells.iter().filter(|_| cell.batch > 1).find(same)?;
    let place = |sample: &Sample| (sample.prompt.clone(), sample.repeat);
    let alone = alone.samples.iter().map(|s| (place(s), s.text)).collect::<BTreeMap<_, _>>();
    let pairs = cell.samples.iter().filter_map(|s| Some((s.text, *alone.get(&place(s))?)));
    let pairs = pairs.collect::<Vec<_>>();
    Some((pairs.iter().filter(|(own, alone)| own != alone).count(), pairs.len()))
}
