//! Draws the distribution of the number of drafted tokens that a round accepts.

use super::data::{Data, TableEntry};
use super::table;
use crate::experiment::Cell;
use crate::plot::{Axis, Column, LegendEntry, LegendSample, NOTHING, Page, PlotValue, ramp};
use crate::statistics::{range_name, ranges, rounds};

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let entries = data.series.iter().filter_map(|series| {
        let cell = series.longest(data.results)?;
        let row = data.row(&cell.id).filter(|row| row.rounds > 0)?;
        Some(TableEntry { series, cell, row })
    });
    let mut entries = entries.collect::<Vec<_>>();
    let mut notes = Vec::new();
    table::limit(data, &mut entries, table::MOST, &mut notes);
    let cells = entries.iter().map(|e| e.cell);
    let most = cells.flat_map(|c| rounds(data.results.samples(&c.id))).map(|r| r.accepted).max()?;
    let bins = ranges(most);
    let column = Column { title: String::new(), axis: Axis::unit("share of rounds"), even: None };
    let value = |e: &TableEntry<'_>| vec![PlotValue::Bar(shares(data, e.cell, &bins))];
    let mut rows = table::rows(data, vec![column], &entries, value);
    // Bins of more tokens are darker.
    let most = bins.len() - 1;
    let colour = |i: usize| if i == 0 { NOTHING } else { ramp(most - i, most).colour };
    rows.parts = (0..bins.len()).map(colour).collect();
    let keys = bins.iter().zip(&rows.parts);
    let legend = keys
        .map(|(bin, colour)| LegendEntry::new(range_name(*bin), LegendSample::Part(*colour)))
        .collect();
    let title = "Drafted tokens that a round accepts";
    Some(table::page(title, notes, legend, rows))
}

/// The share of rounds in each bin.
fn shares(data: &Data<'_>, cell: &Cell, bins: &[(usize, usize)]) -> Vec<f64> {
    let mut counts = vec![0.0; bins.len()];
    for round in rounds(data.results.samples(&cell.id)) {
        let bin = bins.iter().position(|(_, hi)| round.accepted <= *hi);
        counts[bin.unwrap_or(bins.len() - 1)] += 1.0;
    }
    let all = counts.iter().sum::<f64>().max(1.0);
    counts.into_iter().map(|n| n / all).collect()
}
