//! Acceptance by category of prompt as AIPerf's `speed-bench-report` writes it: a row per cell, a
//! column per category, and their mean.
//!
//! AIPerf computes `accept_length` as 1 + accepted / steps and `accept_rate` as accepted / drafted,
//! each summed over a category; `Overall` is the mean over categories, as that of SPEED-Bench
//! (Abramovich et al. 2026, arXiv:2604.09557).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::load::load;
use super::run::{CellView, Run};
use crate::io::output::{make_folder, write_whole};
use crate::measure::statistics::{Sample, rounds};
use crate::run::experiment::describe;

/// The folder that is written.
const FOLDER: &str = "by-category";

/// What a table holds of the sums over a category: steps with a draft, drafted tokens, accepted
/// tokens.
type CategoryMetric = fn([f64; 3]) -> f64;

/// The tables, by AIPerf's names of their metrics.
const TABLES: [(&str, CategoryMetric); 2] = [
    ("accept_length", |[steps, _, accepted]| 1.0 + accepted / steps),
    ("accept_rate", |[_, drafted, accepted]| accepted / drafted),
];

/// Writes the tables into a folder of the results folder, and returns that folder.
///
/// # Errors
/// If a file is missing, damaged or cannot be written; the message names the file.
pub fn write_by_category(folder: &Path) -> Result<PathBuf> {
    let run = load(folder)?;
    let out = folder.join(FOLDER);
    make_folder(&out)?;
    for (name, metric) in TABLES {
        write_whole(&out.join(format!("{name}.csv")), &table(&run, metric)?)?;
    }
    Ok(out)
}

fn table(run: &Run, metric: CategoryMetric) -> Result<Vec<u8>> {
    let categories = run.samples().map(|sample| &*sample.category);
    let categories = categories.collect::<BTreeSet<_>>();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let head = ["Model"].into_iter().chain(categories.iter().copied()).chain(["Overall"]);
    writer.write_record(head)?;
    for cell in run.cells.iter().filter(|cell| cell.series.is_some()) {
        let values = categories.iter().map(|name| sums(&cell.samples, name).map(metric));
        let values = values.collect::<Vec<_>>();
        let known = values.iter().flatten().copied().collect::<Vec<_>>();
        let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
        let text = |value: Option<f64>| value.map_or_else(String::new, |x| format!("{x:.4}"));
        let numbers = values.into_iter().chain([mean]).map(text);
        writer.write_record([model(run, cell)].into_iter().chain(numbers))?;
    }
    Ok(writer.into_inner()?)
}

/// The sums over the rounds with a draft of a category; `None` without any.
fn sums(samples: &[Sample], category: &str) -> Option<[f64; 3]> {
    let own = samples.iter().filter(|sample| &*sample.category == category);
    let mut sums = [0.0; 3];
    for round in rounds(own).filter(|round| round.proposed > 0) {
        sums[0] += 1.0;
        sums[1] += round.proposed as f64;
        sums[2] += round.accepted as f64;
    }
    (sums[0] > 0.0).then_some(sums)
}

/// What stands in the column of the model.
fn model(run: &Run, cell: &CellView) -> String {
    format!("{}, {}", run.plan.target.name, describe(cell))
}
