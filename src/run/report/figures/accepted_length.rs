//! Draws the distribution of the number of drafted tokens that a round accepts.

use super::data::Data;
use super::rows_of_cells;
use crate::measure::plot::{
    Axis, Column, LegendEntry, LegendSample, NOTHING, Page, PlotValue, ramp,
};
use crate::measure::statistics::{range_name, ranges, rounds};
use crate::run::report::run::CellView;

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let longest = data.run.series().filter_map(|series| series.longest());
    let mut entries = longest.filter(|cell| cell.row.rounds > 0).collect::<Vec<_>>();
    let mut notes = Vec::new();
    rows_of_cells::limit(data, &mut entries, rows_of_cells::MOST, &mut notes);
    let most = entries.iter().flat_map(|cell| rounds(&cell.samples)).map(|r| r.accepted).max()?;
    let bins = ranges(most);
    let column = Column { title: String::new(), axis: Axis::unit("share of rounds"), even: None };
    let value = |cell: &CellView| vec![PlotValue::Bar(shares(cell, &bins))];
    let mut rows = rows_of_cells::rows(data, vec![column], &entries, value);
    // Bins of more tokens are darker.
    let most = bins.len() - 1;
    let colour = |i: usize| if i == 0 { NOTHING } else { ramp(most - i, most).colour };
    rows.parts = (0..bins.len()).map(colour).collect();
    let keys = bins.iter().zip(&rows.parts);
    let legend = keys
        .map(|(bin, colour)| LegendEntry::new(range_name(*bin), LegendSample::Part(*colour)))
        .collect();
    let title = "Drafted tokens that a round accepts";
    Some(rows_of_cells::page(title, notes, legend, rows))
}

/// The share of rounds in each bin.
fn shares(cell: &CellView, bins: &[(usize, usize)]) -> Vec<f64> {
    let mut counts = vec![0.0; bins.len()];
    for round in rounds(&cell.samples) {
        let bin = bins.iter().position(|(_, hi)| round.accepted <= *hi);
        counts[bin.unwrap_or(bins.len() - 1)] += 1.0;
    }
    let all = counts.iter().sum::<f64>().max(1.0);
    counts.into_iter().map(|n| n / all).collect()
}
