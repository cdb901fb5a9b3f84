//! Draws the measured over the predicted speedup of every cell.

use super::data::{Data, timed};
use super::rows_of_cells;
use crate::measure::plot::{Axis, Column, Even, Page, PlotValue};
use crate::measure::rows::SummaryRow;
use crate::run::report::run::CellView;

/// A kind of prediction, drawn as a column.
struct ResidualColumn {
    title: &'static str,
    of: fn(&SummaryRow) -> Option<f64>,
}

const COLUMNS: [ResidualColumn; 2] = [
    ResidualColumn { title: "costs of the other half", of: |row| row.predicted_speedup },
    ResidualColumn { title: "calibrated costs", of: |row| row.calibrated_speedup },
];

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let mut entries = data.run.series().flat_map(|series| timed(&series)).collect::<Vec<_>>();
    entries.retain(|cell| cell.row.predicted_speedup.is_some());
    if entries.is_empty() {
        return None;
    }
    let mut notes = Vec::new();
    rows_of_cells::limit(data, &mut entries, rows_of_cells::MOST, &mut notes);
    let columns = COLUMNS.iter().filter(|c| entries.iter().any(|cell| (c.of)(&cell.row).is_some()));
    let columns = columns.collect::<Vec<_>>();
    // Both columns have the same axis, so that they can be compared.
    let dots = |cell: &CellView| columns.iter().map(|c| c.residual(&cell.row)).collect::<Vec<_>>();
    let ends = entries.iter().flat_map(|cell| dots(cell)).flat_map(|dot| dot.reach());
    let axis = Axis::around_one("measured ÷ predicted speedup", ends);
    let titled = columns.iter().map(|column| Column {
        title: column.title.to_owned(),
        axis: axis.clone(),
        even: Some(Even::Line),
    });
    let rows = rows_of_cells::rows(data, titled.collect(), &entries, dots);
    Some(rows_of_cells::page("Measured over predicted speedup", notes, Vec::new(), rows))
}

impl ResidualColumn {
    /// Measured ÷ predicted, with the interval of the measured speedup.
    fn residual(&self, row: &SummaryRow) -> PlotValue {
        let Some(predicted) = (self.of)(row) else { return PlotValue::None };
        let over = |speedup: f64| speedup / predicted;
        let interval = row.speedup_lo.zip(row.speedup_hi).map(|(lo, hi)| (over(lo), over(hi)));
        PlotValue::dot(row.speedup.map(over), interval)
    }
}
