//! Beam searches: their scores, and the passes that drafts save.

use super::document::{DocBlock, TableCell};
use super::run::{CellView, Run};
use super::tables::{lines, number, with_interval};

/// The searches without drafts and then those with drafts. Empty if the run has none.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let table = lines(run.baselines().chain(run.drafted()), numbers);
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
    DocBlock::section(
        "Beam search",
        "A search needs the row of logits after every beam of a step: passes \
         without drafts, so passes per row are 1 there, and what is missing to 1 is what drafts \
         save. Scores are those of the best completion of each search: log p, divided by the \
         length to the power of length_penalty.",
        &head,
        table,
    )
}

fn numbers(cell: &CellView) -> Option<Vec<TableCell>> {
    cell.beam?;
    let row = &cell.row;
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
