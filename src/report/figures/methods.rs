//! Draws methods side by side: acceptance, block efficiency and speedup.

use super::data::{CURVE, Data, TableEntry};
use super::facets::even;
use super::table;
use crate::plot::{Axis, Column, Even, LegendEntry, LegendSample, Page, PlotValue};
use crate::report::series::Series;

/// A metric of a cell, drawn as a column or a panel.
pub(super) struct Metric {
    pub(super) title: &'static str,
    /// The label of its axis.
    pub(super) label: &'static str,
    /// Value, lower and upper end of its interval, prediction.
    pub(super) of: fn(&Data<'_>, &TableEntry<'_>) -> [Option<f64>; 4],
    /// Whether it is a probability.
    pub(super) unit: bool,
    pub(super) even: Option<Even>,
}

pub(super) const ALPHA: Metric = Metric {
    title: "alpha",
    label: "probability",
    of: |_, e| [e.row.alpha, e.row.alpha_lo, e.row.alpha_hi, None],
    unit: true,
    even: None,
};
pub(super) const TAU: Metric = Metric {
    title: "block efficiency τ",
    label: "tokens per target pass",
    of: |_, TableEntry { row: r, .. }| {
        [r.block_efficiency, r.block_efficiency_lo, r.block_efficiency_hi, None]
    },
    unit: false,
    even: None,
};
const PASSES: Metric = Metric {
    title: "passes of beam search",
    label: "target passes per row",
    of: |_, TableEntry { row: r, .. }| {
        [r.passes_per_row, r.passes_per_row_lo, r.passes_per_row_hi, None]
    },
    unit: true,
    even: None,
};
pub(super) const SPEEDUP: Metric = Metric {
    title: "speedup",
    label: "over plain decoding (×)",
    of: |_, TableEntry { row: r, .. }| [r.speedup, r.speedup_lo, r.speedup_hi, r.predicted_speedup],
    unit: false,
    even: Some(Even::Loss),
};

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let mut entries = data.series.iter().flat_map(|s| cells(data, s)).collect::<Vec<_>>();
    if entries.len() < 2 {
        return None;
    }
    let mut notes = Vec::new();
    table::limit(data, &mut entries, table::MOST, &mut notes);
    if data.series.iter().any(|s| data.timed(s).len() >= CURVE) {
        let k = data.times.chosen_k();
        notes.push(format!("Methods with {CURVE} or more K are shown at their {k}."));
    }
    let mut measures = vec![ALPHA, TAU, PASSES, SPEEDUP];
    measures.retain(|m| entries.iter().any(|e| (m.of)(data, e)[0].is_some()));
    let columns = measures.iter().map(|measure| measure.column(data, &entries)).collect();
    let value = |entry: &TableEntry<'_>| measures.iter().map(|m| m.value(data, entry)).collect();
    let rows = table::rows(data, columns, &entries, value);
    let predicted = entries.iter().any(|e| e.row.predicted_speedup.is_some());
    let predicted = predicted.then(|| LegendEntry::new("predicted", LegendSample::Hollow));
    let legend = predicted.into_iter().chain([even()]).collect();
    Some(table::page("Methods side by side", notes, legend, rows))
}

/// All timed cells of a series or, if it has enough for a curve, only the one that stands for it.
fn cells<'d>(data: &'d Data<'_>, series: &'d Series<'_>) -> Vec<TableEntry<'d>> {
    let mut timed = data.timed(series);
    if let Some(best) = data.best(series).filter(|_| timed.len() >= CURVE) {
        timed.retain(|entry| entry.cell.id == best.id);
    }
    timed
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

    fn column(&self, data: &Data<'_>, entries: &[TableEntry<'_>]) -> Column {
        let values = entries.iter().flat_map(|e| (self.of)(data, e)).flatten();
        Column { title: self.title.to_owned(), axis: self.axis(values), even: self.even }
    }

    fn value(&self, data: &Data<'_>, entry: &TableEntry<'_>) -> PlotValue {
        let [x, lo, hi, predicted] = (self.of)(data, entry);
        x.map_or(PlotValue::None, |x| PlotValue::Dot { x, interval: lo.zip(hi), predicted })
    }
}
