//! Draws the speedup by category of prompt, at the best K of each method.

use std::collections::BTreeMap;

use super::data::Data;
use super::facets::even;
use super::rows_of_cells;
use crate::measure::plot::{Axis, Column, Even, MOST_PANELS, Page, PlotValue};
use crate::measure::statistics::{speedup, speedup_interval};
use crate::run::report::loops::{judged_samples, pairs_of};
use crate::run::report::run::CellView;

/// How many categories are drawn side by side.
const ABREAST: usize = 4;

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let mut notes = Vec::new();
    let categories = largest(&data.run.categories(), &mut notes);
    let mut entries = data.run.series().filter_map(|series| series.best()).collect::<Vec<_>>();
    if categories.len() < 2 || data.methods().len() < 2 {
        return None;
    }
    let bands = categories.len().div_ceil(ABREAST);
    rows_of_cells::limit(data, &mut entries, rows_of_cells::MOST / bands, &mut notes);
    let dots = entries.iter().map(|cell| {
        let samples = judged_samples(data.run, cell);
        let dot = |wanted: &&str| {
            let inside = samples.iter().copied().filter(|sample| &*sample.category == *wanted);
            let times = pairs_of(data.run, cell, inside);
            let interval = speedup_interval(&times).map(|i| (i.lo, i.hi));
            PlotValue::dot(speedup(times.values()), interval)
        };
        (cell.id.as_str(), categories.iter().map(dot).collect::<Vec<_>>())
    });
    let dots = dots.collect::<BTreeMap<_, _>>();
    let ends = dots.values().flatten().flat_map(PlotValue::reach);
    let axis = Axis::around_one("speedup over plain decoding (×)", ends);
    let column = |name: &&str| Column {
        title: (*name).to_owned(),
        axis: axis.clone(),
        even: Some(Even::Loss),
    };
    let columns = categories.iter().map(column).collect();
    let values = |cell: &CellView| dots.get(cell.id.as_str()).cloned().unwrap_or_default();
    let rows = rows_of_cells::rows(data, columns, &entries, values);
    Some(rows_of_cells::page("Speedup by category of prompt", notes, vec![even()], rows))
}

/// The names of the [`MOST_PANELS`] categories with the most prompts, sorted.
fn largest<'c>(category: &BTreeMap<&str, &'c str>, notes: &mut Vec<String>) -> Vec<&'c str> {
    let mut prompts = BTreeMap::<&str, usize>::new();
    for c in category.values() {
        *prompts.entry(c).or_default() += 1;
    }
    let all = prompts.len();
    let mut prompts = prompts.into_iter().collect::<Vec<_>>();
    prompts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    prompts.truncate(MOST_PANELS);
    if prompts.len() < all {
        notes.push(format!("{} of {all} categories: those with the most prompts.", prompts.len()));
    }
    let mut names = prompts.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    names.sort_unstable();
    names
}
