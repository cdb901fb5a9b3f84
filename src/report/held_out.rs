//! Speedups predicted from costs that were fitted to the rounds on the other half of the
//! prompts, and how far they are off.

use std::collections::BTreeMap;

use super::document::{DocBlock, DocCell};
use super::results::Results;
use super::series::Series;
use crate::experiment::Cell;
use crate::registry::class_with_word;
use crate::shown::count;
use crate::statistics::{CostKeys, HeldOutCell, HeldOutSpeedup, halves, held_out, median};

/// The predictions by cell id; empty if there are too few prompts to fit costs to.
pub(super) fn predictions(results: &Results) -> BTreeMap<&str, HeldOutSpeedup> {
    // Completions of a batch share their times, so that no half of them is apart from the other.
    let cells = results.plan.cells.iter().filter(|cell| !cell.control && cell.batch == 1);
    let cells = cells.collect::<Vec<_>>();
    let fitted = cells.iter().enumerate().map(|(at, cell)| {
        let same_goal = |other: &&Cell| other.is_baseline() && other.goal() == cell.goal();
        let baseline = cells.iter().position(same_goal).unwrap_or(at);
        HeldOutCell { keys: keys(cell), baseline, samples: results.samples(&cell.id) }
    });
    let categories = results.samples.values().flatten().map(|s| (&*s.prompt, &*s.category));
    let categories = categories.collect::<BTreeMap<_, _>>();
    let plan = &results.plan;
    let prompts = plan.prompts.iter().map(String::as_str);
    let prompts = prompts.filter(|prompt| plan.original(prompt) == *prompt);
    let prompts = prompts.filter_map(|prompt| Some((prompt, *categories.get(prompt)?)));
    let found = held_out(&fitted.collect::<Vec<_>>(), &halves(prompts));
    cells.iter().zip(found).filter_map(|(cell, found)| Some((&*cell.id, found?))).collect()
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
pub(super) fn section(results: &Results, series: &[Series<'_>]) -> Vec<DocBlock> {
    let found = predictions(results);
    let gaps = |series: &Series<'_>| {
        let own = series.cells.iter().filter_map(|cell| found.get(&*cell.id));
        own.flat_map(|held_out| held_out.gaps).collect::<Vec<_>>()
    };
    let rows = series.iter().filter_map(|series| {
        let gaps = gaps(series);
        let (median, largest) = sizes(&gaps)?;
        Some(vec![
            series.method.as_str().into(),
            series.sampling.as_str().into(),
            class_with_word(&series.cells[0].class).into(),
            (gaps.len() / 2).into(),
            DocCell::percent(median, 1),
            DocCell::difference(largest),
        ])
    });
    let all = series.iter().flat_map(gaps).collect::<Vec<_>>();
    let Some((median, largest)) = sizes(&all) else { return Vec::new() };
    let head = ["method", "sampling", "class", "cells:", "median |gap|:", "largest gap:"];
    let words = format!(
        "The gap is measured ÷ predicted speedup − 1, on each half of the prompts. Costs (T by rows \
         and context, drafting, verification, other) are fitted to the rounds of one half; what \
         they predict for the other half is compared with what was measured there. With the target \
         in {}: median |gap| {:.1} %, largest {:+.1} %.{}",
        results.plan.target.dtype,
        100.0 * median,
        100.0 * largest,
        drift(results)
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
fn drift(results: &Results) -> String {
    let session = results.session();
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
