//! Draws verifiers relative to rejection sampling of the same drafts.

use super::data::{Data, TableEntry};
use super::table;
use crate::plot::{Axis, Column, Even, LegendEntry, LegendSample, Page, PlotValue};
use crate::report::worth::{Rival, rivals};
use crate::statistics::Interval;

type RivalRatio = fn(&Rival<'_>) -> (Option<f64>, Option<Interval>);

const RATIOS: [(&str, &str, RivalRatio); 2] = [
    ("block efficiency τ", "ratio to that of rejection", |r| (Some(r.tau), r.tau_interval)),
    ("speed", "ratio to that of rejection", |r| (r.speed, r.speed_interval)),
];

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let rivals = rivals(data.results, &data.series);
    let entries = rivals.iter().filter_map(|&Rival { series, cell, .. }| {
        Some(TableEntry { series, cell, row: data.row(&cell.id)? })
    });
    let mut entries = entries.collect::<Vec<_>>();
    if entries.is_empty() {
        return None;
    }
    let mut notes = Vec::new();
    table::limit(data, &mut entries, table::MOST, &mut notes);
    let value = |rival: &Rival<'_>, of: RivalRatio| {
        let (x, interval) = of(rival);
        PlotValue::dot(x, interval.map(|i| (i.lo, i.hi)))
    };
    let columns = RATIOS.map(|(title, label, of)| {
        let axis = Axis::around_one(label, rivals.iter().flat_map(|r| value(r, of).reach()));
        Column { title: title.to_owned(), axis, even: Some(Even::Loss) }
    });
    let values = |entry: &TableEntry<'_>| {
        let rival = rivals.iter().find(|r| r.cell.id == entry.cell.id);
        RATIOS.map(|(_, _, of)| rival.map_or(PlotValue::None, |rival| value(rival, of))).into()
    };
    let rows = table::rows(data, columns.into(), &entries, values);
    let legend = vec![LegendEntry::new("worse than rejection sampling", LegendSample::Loss)];
    Some(table::page("Verifiers against rejection sampling", notes, legend, rows))
}
