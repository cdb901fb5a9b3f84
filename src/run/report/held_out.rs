//! Speedups predicted from costs that were fitted to the rounds on the other half of the
//! prompts, and how far they are off.

use std::collections::BTreeMap;

use super::document::{DocBlock, TableCell};
use super::run::{CellView, Run};
use crate::io::shown::count;
use crate::measure::statistics::{CostKeys, HeldOutCell, HeldOutSpeedup, halves, held_out, median};
use crate::run::experiment::{Cell, RunSession};

/// The predictions by the places of cells; empty if there are too few prompts to fit costs to.
pub(super) fn predictions(run: &Run) -> BTreeMap<usize, HeldOutSpeedup> {
    // Completions of a batch share their times, so that no half of them is apart from the other.
    let fits = |at: &usize| !run.cells[*at].control && run.cells[*at].batch == 1;
    let places = (0..run.cells.len()).filter(fits).collect::<Vec<_>>();
    let fitted = places.iter().map(|&at| {
        let cell = &run.cells[at];
        let baseline = places.binary_search(&cell.baseline.unwrap_or(at)).unwrap_or_default();
        HeldOutCell { keys: keys(cell), baseline, samples: &cell.samples }
    });
    let (plan, categories) = (&run.plan, run.categories());
    let prompts = plan.prompts.iter().map(String::as_str);
    let prompts = prompts.filter(|prompt| plan.original(prompt) == *prompt);
    let prompts = prompts.filter_map(|prompt| Some((prompt, *categories.get(prompt)?)));
    let found = held_out(&fitted.collect::<Vec<_>>(), &halves(prompts));
    places.into_iter().zip(found).filter_map(|(at, found)| Some((at, found?))).collect()
}

/// All draft lengths of a method share the costs other than the target's passes, and all cells with
/// the same drafter share these.
fn keys(cell: &Cell) -> CostKeys {
    let method = &cell.method;
    let (drafter, verifier, length) = (&method.drafter, &method.verifier, &method.length);
    CostKeys {
        passes: drafter.clone(),
        parts: format!("{drafter} {verifier} {length} {} {}", method.params, cell.goal_in_words()),
    }
}

/// The section with the gaps of every method; empty without predictions.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let gaps = |cells: &[&CellView]| {
        let found = cells.iter().filter_map(|cell| cell.held_out);
        found.flat_map(|held_out| held_out.gaps).collect::<Vec<_>>()
    };
    let rows = run.series().filter_map(|series| {
        let gaps = gaps(&series.cells);
        let (median, largest) = sizes(&gaps)?;
        let rest = [
            (gaps.len() / 2).into(),
            TableCell::percent(median, 1),
            TableCell::difference(largest),
        ];
        Some(series.first().names().into_iter().chain(rest).collect())
    });
    let all = gaps(&run.drafted().collect::<Vec<_>>());
    let Some((median, largest)) = sizes(&all) else { return Vec::new() };
    let head = ["method", "sampling", "class", "cells:", "median |gap|:", "largest gap:"];
    let words = format!(
        "The gap is measured ÷ predicted speedup − 1, on each half of the prompts. Costs (T by rows \
         and context, drafting, verification, other) are fitted to the rounds of one half; what \
         they predict for the other half is compared with what was measured there. With the target \
         in {}: median |gap| {:.1} %, largest {:+.1} %.{}",
        run.plan.target.dtype,
        100.0 * median,
        100.0 * largest,
        drift(run.session())
    );
    DocBlock::section("Predicted and measured", &words, &head, rows.collect())
}

/// The median size of some gaps and the largest gap; `None` without gaps.
pub(super) fn sizes(gaps: &[f64]) -> Option<(f64, f64)> {
    let sizes = gaps.iter().map(|gap| gap.abs()).collect::<Vec<_>>();
    let largest = gaps.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
    Some((median(&sizes)?, largest))
}

/// How the time of a pass changed during the sweep, by the calibrations between its blocks.
fn drift(session: &RunSession) -> String {
    let first = session.calibration.target_us(1).filter(|us| *us > 0.0);
    let later = session.recalibrations.iter().filter_map(|again| again.passes.first());
    let factors = later.filter_map(|pass| Some(pass.us / first?)).collect::<Vec<_>>();
    let ends = |pick: fn(f64, f64) -> f64| factors.iter().copied().reduce(pick);
    ends(f64::min).zip(ends(f64::max)).map_or_else(String::new, |(least, most)| {
        format!(
            " In {} between blocks, T(1) was {least:.2} to {most:.2} times that before the sweep.",
            count(factors.len(), "calibration")
        )
    })
}
