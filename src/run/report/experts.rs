//! What passes read of a target whose feed-forward blocks are sparse.

use super::document::DocBlock;
use super::run::Run;
use super::tables::{columns, number};
use crate::measure::statistics::{RowSums, add_rows};

/// The distinct experts of the target's passes, by their rows. Empty if it has no experts.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let Some(experts) = run.plan.target.experts else { return Vec::new() };
    let mut sums = Vec::new();
    // The sequences of a batch share their passes.
    for sample in run.cells.iter().filter(|cell| cell.batch <= 1).flat_map(|cell| &cell.samples) {
        sample.rounds.by_rows().iter().for_each(|own| add_rows(&mut sums, *own));
    }
    let layers = experts.layers as f64;
    let line = |own: &RowSums| {
        let found = own.experts / own.rounds.max(1.0);
        let random = experts.if_random(own.rows);
        vec![
            own.rows.to_string().into(),
            number(Some(own.rounds), 0),
            number(Some(found / layers), 2),
            number(Some(random / layers), 2),
            number(Some(found * experts.bytes as f64 / 1e6), 1),
        ]
    };
    let head = columns(&[
        "rows of a pass:",
        "rounds:",
        "distinct experts per layer:",
        "if chosen at random:",
        "MB of experts per pass:",
    ]);
    let words = format!(
        "Each of {} sparse layers has {} experts of {:.2} MB, of which a token uses {}. A pass reads \
         an expert once for all of its rows, so what it reads grows with the rows until all \
         experts are needed. If every row chose at random, a pass of m rows would need \
         E · (1 − (1 − k / E)^m) of E experts.",
        experts.layers,
        experts.count,
        experts.bytes as f64 / 1e6,
        experts.used
    );
    DocBlock::section("Experts", &words, &head, sums.iter().map(line).collect())
}
