//! Draws methods side by side: acceptance, block efficiency and speedup.

use super::data::{CURVE, Data, timed};
use super::facets::even;
use super::rows_of_cells;
use crate::measure::plot::{Axis, Column, Even, LegendEntry, LegendSample, Page, PlotValue};
use crate::measure::rows::SummaryRow;
use crate::run::report::run::{CellView, Series};

/// A metric of a cell, drawn as a column or a panel.
pub(super) struct Metric {
    pub(super) title: &'static str,
    /// The label of its axis.
    pub(super) label: &'static str,
    /// Value, lower and upper end of its interval, prediction.
    pub(super) of: fn(&SummaryRow) -> [Option<f64>; 4],
    /// Whether it is a probability.
    pub(super) unit: bool,
    pub(super) even: Option<Even>,
}

pub(super) const ALPHA: Metric = Metric {
    title: "alpha",
    label: "mean Σ min(p, q)",
    of: |r| [r.alpha, r.alpha_lo, r.alpha_hi, None],
    unit: true,
    even: None,
};
pub(super) const TAU: Metric = Metric {
    title: "block efficiency τ",
    label: "tokens per target pass",
    of: |r| [r.block_efficiency, r.block_efficiency_lo, r.block_efficiency_hi, None],
    unit: false,
    even: None,
};
const PASSES: Metric = Metric {
    title: "passes of beam search",
    label: "target passes per row",
    of: |r| [r.passes_per_row, r.passes_per_row_lo, r.passes_per_row_hi, None],
    unit: true,
    even: None,
};
pub(super) const SPEEDUP: Metric = Metric {
    title: "speedup",
    label: "over plain decoding (×)",
    of: |r| [r.speedup, r.speedup_lo, r.speedup_hi, r.predicted_speedup],
    unit: false,
    even: Some(Even::Loss),
};

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let mut entries = data.run.series().flat_map(|series| cells(&series)).collect::<Vec<_>>();
    if entries.len() < 2 {
        return None;
    }
    let mut notes = Vec::new();
    rows_of_cells::limit(data, &mut entries, rows_of_cells::MOST, &mut notes);
    if data.run.series().any(|series| timed(&series).len() >= CURVE) {
        let k = data.run.times.chosen_k();
        notes.push(format!("Methods with {CURVE} or more K are shown at their {k}."));
    }
    let mut measures = vec![ALPHA, TAU, PASSES, SPEEDUP];
    measures.retain(|m| entries.iter().any(|cell| (m.of)(&cell.row)[0].is_some()));
    let columns = measures.iter().map(|measure| measure.column(&entries)).collect();
    let value = |cell: &CellView| measures.iter().map(|m| m.value(cell)).collect();
    let rows = rows_of_cells::rows(data, columns, &entries, value);
    let predicted = entries.iter().any(|cell| cell.row.predicted_speedup.is_some());
    let predicted = predicted.then(|| LegendEntry::new("predicted", LegendSample::Hollow));
    let legend = predicted.into_iter().chain([even()]).collect();
    Some(rows_of_cells::page("Methods side by side", notes, legend, rows))
}

/// All timed cells of a series or, if it has enough for a curve, only the one that stands for it.
fn cells<'a>(series: &Series<'a>) -> Vec<&'a CellView> {
    let timed = timed(series);
    match series.best().filter(|_| timed.len() >= CURVE) {
        Some(best) => vec![best],
        None => timed,
    }
}

impl Metric {
    /// An axis that encloses some values of the metric.
    pub(super) fn axis(&self, values: impl Iterator<Item = f64>) -> Axis {
        match self.even {
            Some(Even::Loss) => Axis::around_one(self.label, values),
            _ if self.unit => Axis::unit(self.label),
            _ => Axis::holding(self.label, values.chain([1.0])),
        }
    }

    fn column(&self, entries: &[&CellView]) -> Column {
        let values = entries.iter().flat_map(|cell| (self.of)(&cell.row)).flatten();
        Column { title: self.title.to_owned(), axis: self.axis(values), even: self.even }
    }

    fn value(&self, cell: &CellView) -> PlotValue {
        let [x, lo, hi, predicted] = (self.of)(&cell.row);
        x.map_or(PlotValue::None, |x| PlotValue::Dot { x, interval: lo.zip(hi), predicted })
    }
}
