//! Batches: what a completion costs among others, and whether it is the same as alone.

use std::collections::BTreeMap;

use super::document::{DocBlock, DocCell};
use super::results::Results;
use super::series::{Series, columns, lines, plain_lines};
use super::tables::{number, with_interval};
use crate::experiment::{Cell, SweepPoint};
use crate::rows::SummaryRow;
use crate::statistics::Sample;

/// Plain decoding and then the methods, in every batch. Empty if the run has one completion at a
/// time.
pub(super) fn section(
    results: &Results,
    series: &[Series<'_>],
    summary: &[SummaryRow],
) -> Vec<DocBlock> {
    if results.plan.cells.iter().all(|cell| cell.batch == 1) {
        return Vec::new();
    }
    let numbers = |cell: &Cell, row: &SummaryRow| Some(numbers(results, cell, row));
    let mut table = plain_lines(results, summary, |_| true, numbers);
    table.extend(lines(series, summary, numbers));
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

fn numbers(results: &Results, cell: &Cell, row: &SummaryRow) -> Vec<DocCell> {
    let others = others(results, cell);
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
fn others(results: &Results, cell: &Cell) -> Option<(usize, usize)> {
    let same = |other: &&Cell| {
        let alone = SweepPoint { batch: 1, ..cell.point.clone() };
        other.point == alone && other.control == cell.control && other.id != cell.id
    };
    let alone = results.plan.cells.iter().find(same)?;
    let place = |sample: &Sample| (sample.prompt.clone(), sample.repeat);
    let alone = results.samples(&alone.id).iter().map(|s| (place(s), s.text));
    let alone = alone.collect::<BTreeMap<_, _>>();
    let pairs = results.samples(&cell.id).iter();
    let pairs = pairs.filter_map(|s| Some((s.text, *alone.get(&place(s))?)));
    let pairs = pairs.collect::<Vec<_>>();
    Some((pairs.iter().filter(|(own, alone)| own != alone).count(), pairs.len()))
}
