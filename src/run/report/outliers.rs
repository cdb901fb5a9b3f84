//! Outlier prompts and their influence on speedups.

use super::document::{DocBlock, TableCell};
use super::run::{CellView, Run};
use super::tables::number;
use crate::core::registry::class_with_word;
use crate::measure::statistics::{Outlier, Side, outliers, pair_by_prompt, speedup};

/// The maximum number of rows of the table.
const ROWS: usize = 20;

/// The relative influence on a speedup that is worth a warning: neighbouring draft lengths
/// differ by less.
const LARGE: f64 = 0.02;

/// A prompt that is an outlier in a cell.
#[derive(Debug)]
struct Far<'a> {
    cell: &'a CellView,
    outlier: Outlier<'a>,
    /// The speedup with all prompts.
    speedup: f64,
    /// The number of cells in which it is an outlier. A baseline generation that is an
    /// outlier counts in all cells that share the baseline.
    cells: usize,
}

impl Far<'_> {
    /// Whether both outliers are the same generation of plain decoding.
    fn is_same(&self, other: &Self) -> bool {
        self.outlier.side == Side::Plain
            && other.outlier.side == Side::Plain
            && self.outlier.prompt == other.outlier.prompt
            && self.cell.baseline == other.cell.baseline
    }
}

/// All outliers, the largest influence first. An outlier of plain decoding appears once,
/// with the cell whose speedup it changes the most.
fn far(run: &Run) -> Vec<Far<'_>> {
    let mut all = Vec::new();
    for cell in run.drafted() {
        let pairs = pair_by_prompt(run.baseline(cell), &cell.samples);
        let Some(speedup) = speedup(pairs.values()) else { continue };
        let found = outliers(&pairs).into_iter();
        all.extend(found.map(|outlier| Far { cell, outlier, speedup, cells: 1 }));
    }
    let size = |far: &Far<'_>| far.outlier.influence.abs();
    all.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let mut each = Vec::<Far<'_>>::new();
    for far in all {
        match each.iter_mut().find(|known| known.is_same(&far)) {
            Some(known) => known.cells += 1,
            None => each.push(far),
        }
    }
    each
}

/// A warning about the prompt with the largest influence, if that is at least [`LARGE`].
pub(super) fn warning(run: &Run) -> Option<String> {
    let far = far(run);
    let Far { cell, outlier, speedup, .. } = far.first()?;
    (outlier.influence.abs() >= LARGE).then(|| {
        format!(
            "Prompt {} alone moves the speedup of \"{}, K = {}, {}\" from {:.2} to {speedup:.2}: \
             {} is {:.2} times the median. See the section \"Far prompts\".",
            outlier.prompt,
            cell.name,
            cell.method.num_speculative_tokens,
            cell.sampling,
            outlier.without,
            what(outlier.side),
            outlier.factor,
        )
    })
}

/// The section with the table of outliers; empty if there are none.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let far = far(run);
    let head = [
        "prompt",
        "sampling",
        "what is far",
        "÷ median:",
        "cells:",
        "moves the most",
        "class",
        "K:",
        "speedup:",
        "without it:",
        "moved by:",
    ];
    let row = |far: &Far<'_>| {
        let Far { cell, outlier, .. } = far;
        vec![
            outlier.prompt.into(),
            cell.sampling.as_str().into(),
            what(outlier.side).into(),
            number(Some(outlier.factor), 2),
            far.cells.into(),
            cell.name.as_str().into(),
            class_with_word(&cell.class).into(),
            cell.method.num_speculative_tokens.into(),
            number(Some(far.speedup), 3),
            number(Some(outlier.without), 3),
            TableCell::difference(outlier.influence),
        ]
    };
    let mut blocks = DocBlock::section(
        "Far prompts",
        "Prompts whose time per pass, in plain decoding or in a cell, or whose speedup is far \
         from the median of the prompts: by 3.5 robust standard deviations of its logarithm \
         and by a factor of 1.5. They count like all others; the last columns show their \
         influence. A far time per pass points to a disturbed machine or, in a cell, to \
         drafts of another length.",
        &head,
        far.iter().take(ROWS).map(row).collect(),
    );
    if let more @ 1.. = far.len().saturating_sub(ROWS) {
        blocks.push(DocBlock::paragraph(&format!("{more} more move speedups by less.")));
    }
    blocks
}

fn what(side: Side) -> &'static str {
    match side {
        Side::Plain => "plain decoding's time per pass",
        Side::Cell => "the cell's time per pass",
        Side::Speedup => "its own speedup",
    }
}
