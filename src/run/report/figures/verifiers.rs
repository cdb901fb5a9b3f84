//! Draws verifiers relative to rejection sampling of the same drafts.

use std::collections::BTreeMap;

use super::data::Data;
use super::rows_of_cells;
use crate::measure::plot::{Axis, Column, Even, LegendEntry, LegendSample, Page, PlotValue};
use crate::measure::statistics::Interval;
use crate::run::report::run::CellView;
use crate::run::report::worth::{Rival, rivals};

type RivalRatio = fn(&Rival<'_>) -> (Option<f64>, Option<Interval>);

const RATIOS: [(&str, &str, RivalRatio); 2] = [
    ("block efficiency τ", "ratio to that of rejection", |r| (Some(r.tau), r.tau_interval)),
    ("speed", "ratio to that of rejection", |r| (r.speed, r.speed_interval)),
];

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let rivals = rivals(data.run);
    let mut entries = rivals.iter().map(|rival| rival.cell).collect::<Vec<_>>();
    if entries.is_empty() {
        return None;
    }
    let mut notes = Vec::new();
    rows_of_cells::limit(data, &mut entries, rows_of_cells::MOST, &mut notes);
    let value = |rival: &Rival<'_>, of: RivalRatio| {
        let (x, interval) = of(rival);
        PlotValue::dot(x, interval.map(|i| (i.lo, i.hi)))
    };
    let columns = RATIOS.map(|(title, label, of)| {
        let axis = Axis::around_one(label, rivals.iter().flat_map(|r| value(r, of).reach()));
        Column { title: title.to_owned(), axis, even: Some(Even::Loss) }
    });
    let by_cell = rivals.iter().map(|rival| (&*rival.cell.id, rival)).collect::<BTreeMap<_, _>>();
    let values = |cell: &CellView| RATIOS.map(|(_, _, of)| value(by_cell[&*cell.id], of)).into();
    let rows = rows_of_cells::rows(data, columns.into(), &entries, values);
    let legend = vec![LegendEntry::new("worse than rejection sampling", LegendSample::Loss)];
    Some(rows_of_cells::page("Verifiers against rejection sampling", notes, legend, rows))
}
