//! Draws the mean time of a round, divided into its parts.

use super::data::{Data, once};
use super::table::{self, MOST, TableEntry};
use crate::experiment::Cell;
use crate::plot::{
    Axis, Column, Group, LegendEntry, LegendSample, NEUTRAL, PARTS, Page, PlotRow, PlotRows,
    PlotValue,
};
use crate::statistics::{acceptance, timed, times};

const NAMES: [&str; 4] = ["target", "draft", "verify", "other"];
/// Up to this many sampling settings are drawn side by side; more become groups of rows.
const COLUMNS: usize = 3;
const PLAIN: &str = "plain decoding";

/// A bar: its sampling setting, its name, and milliseconds in the order of [`NAMES`].
type Bar = (String, String, [f64; 4]);

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let mut notes = Vec::new();
    let samplings = data.samplings();
    let side_by_side = samplings.len() <= COLUMNS;
    let most =
        if side_by_side { (MOST - 1) * samplings.len() } else { MOST - samplings.len().min(MOST) };
    let bars = bars(data, most, &mut notes);
    let top = bars.iter().map(|(_, _, parts)| parts.iter().sum::<f64>()).fold(0.0, f64::max);
    if top == 0.0 {
        return None;
    }
    let axis = Axis::holding("time per round (ms)", [0.0, top]);
    let column = |title: &str| Column { title: title.to_owned(), axis: axis.clone(), even: None };
    let bar = |sampling: &str, name: &str| {
        let found = bars.iter().find(|(s, n, _)| s == sampling && n == name);
        found.map_or(PlotValue::None, |(_, _, parts)| PlotValue::Bar(parts.to_vec()))
    };
    let row = |name: &str, samplings: &[&str]| PlotRow {
        label: name.to_owned(),
        style: NEUTRAL,
        values: samplings.iter().map(|sampling| bar(sampling, name)).collect(),
    };
    let (columns, groups) = if side_by_side {
        let names = once(bars.iter().map(|(_, name, _)| name.as_str()));
        let rows = names.iter().map(|name| row(name, &samplings)).collect();
        let columns = samplings.iter().map(|s| column(s)).collect::<Vec<_>>();
        (columns, vec![Group { title: String::new(), rows }])
    } else {
        let group = |sampling: &&str| {
            let own = bars.iter().filter(|(s, _, _)| s == sampling);
            let rows = own.map(|(_, name, _)| row(name, &[*sampling])).collect();
            Group { title: (*sampling).to_owned(), rows }
        };
        (vec![column("")], samplings.iter().map(group).collect())
    };
    let keys = NAMES.into_iter().zip(PARTS);
    let legend =
        keys.map(|(name, colour)| LegendEntry::new(name, LegendSample::Part(colour))).collect();
    let title = "Time per round and where it goes";
    Some(table::page(title, notes, legend, PlotRows { columns, groups, parts: PARTS.into() }))
}

/// The bars, with plain decoding before the first cell of each sampling setting.
fn bars(data: &Data<'_>, most: usize, notes: &mut Vec<String>) -> Vec<Bar> {
    let cells = data.series.iter().flat_map(|series| {
        let rows = series.cells.iter().filter_map(|cell| Some((*cell, data.row(&cell.id)?)));
        rows.map(move |(cell, row)| TableEntry { series, cell, row })
    });
    let mut entries = cells.collect::<Vec<_>>();
    table::limit(data, &mut entries, most, notes);
    let mut bars = Vec::<Bar>::new();
    for TableEntry { series, cell, .. } in entries {
        let plain = bars.iter().any(|(s, n, _)| *s == series.sampling && n == PLAIN);
        let baseline = data.results.plan.baseline_of(cell).filter(|_| !plain);
        let baseline = baseline.map(|baseline| (baseline, PLAIN.to_owned()));
        let own = (cell, table::label(data, series, cell));
        let both = baseline.into_iter().chain([own]);
        let bar = |(cell, name)| Some((series.sampling.clone(), name, parts(data, cell)?));
        bars.extend(both.filter_map(bar));
    }
    bars
}

/// Mean milliseconds per timed round in the order of [`NAMES`]; `None` without rounds.
fn parts(data: &Data<'_>, cell: &Cell) -> Option<[f64; 4]> {
    let samples = || timed(data.results.samples(&cell.id));
    let (times, rounds) = (times(samples()), acceptance(samples()).rounds as f64);
    let us = [times.target, times.draft, times.verify, times.other];
    (rounds > 0.0).then(|| us.map(|us| us / 1000.0 / rounds))
}
