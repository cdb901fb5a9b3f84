//! Beam searches: their scores, and the passes that drafts save.

use super::document::{DocBlock, DocCell};
use super::results::Results;
use super::series::{Names, Series, lines};
use super::tables::{number, with_interval};
use crate::experiment::Cell;
use crate::registry::class_with_word;
use crate::rows::SummaryRow;

/// The searches without drafts and then those with drafts. Empty if the run has none.
pub(super) fn section(
    results: &Results,
    series: &[Series<'_>],
    summary: &[SummaryRow],
) -> Vec<DocBlock> {
    let baselines = results.plan.cells.iter().filter(|c| c.is_baseline() && c.beam.is_some());
    let names = Names::new(baselines.clone());
    let plain = baselines.filter_map(|cell| {
        let row = summary.iter().find(|row| row.cell == cell.id)?;
        let first = [names.method(cell), names.goal(cell), class_with_word(&cell.class)];
        let first = first.into_iter().map(DocCell::from).chain([number(None, 0)]);
        Some(first.chain(numbers(cell, row)?).collect())
    });
    let table = plain.chain(lines(series, summary, numbers)).collect::<Vec<_>>();
    if table.is_empty() {
        return Vec::new();
    }
    let head = [
        "method",
        "search",
        "class",
        "K:",
        "generations:",
        "passes per token:",
        "passes per row [95 %]:",
        "mean log p:",
        "mean score:",
        "tokens/s:",
        "speedup [95 %]:",
    ];
    vec![
        DocBlock::Heading("Beam search"),
        DocBlock::paragraph(
            "A search needs the row of logits after every beam of a step: passes \
             without drafts, so passes per row are 1 there, and what is missing to 1 is what drafts \
             save. Scores are those of the best completion of each search: log p, divided by the \
             length to the power of length_penalty.",
        ),
        DocBlock::table(&head, table),
    ]
}

fn numbers(cell: &Cell, row: &SummaryRow) -> Option<Vec<DocCell>> {
    cell.beam?;
    let (lo, hi) = (row.passes_per_row_lo, row.passes_per_row_hi);
    Some(vec![
        row.generations.into(),
        number(row.passes_per_token, 3),
        with_interval(row.passes_per_row, lo, hi, 3),
        number(row.log_prob, 3),
        number(row.score, 4),
        number(row.tokens_per_second, 1),
        with_interval(row.speedup, row.speedup_lo, row.speedup_hi, 2),
    ])
}
