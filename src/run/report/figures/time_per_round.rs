//! Draws the mean time of a round, divided into its parts.

use super::data::{Data, once};
use super::rows_of_cells::{self, MOST};
use crate::measure::plot::{
    Axis, Column, Group, LegendEntry, LegendSample, NEUTRAL, PARTS, Page, PlotValue, Row, Rows,
};
use crate::measure::statistics::{acceptance, timed, times};
use crate::run::report::run::CellView;

const NAMES: [&str; 4] = ["target", "draft", "verify", "other"];
/// Up to this many sampling settings are drawn side by side; more become groups of rows.
const COLUMNS: usize = 3;
const PLAIN: &str = "plain decoding";

/// The bar of a cell.
struct RoundBar {
    sampling: String,
    name: String,
    /// Milliseconds in the order of [`NAMES`].
    parts: [f64; 4],
    cell: String,
}

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let mut notes = Vec::new();
    let samplings = data.samplings();
    let side_by_side = samplings.len() <= COLUMNS;
    let most =
        if side_by_side { (MOST - 1) * samplings.len() } else { MOST - samplings.len().min(MOST) };
    let bars = bars(data, most, &mut notes);
    let top = bars.iter().map(|bar| bar.parts.iter().sum::<f64>()).fold(0.0, f64::max);
    if top == 0.0 {
        return None;
    }
    let axis = Axis::holding("time per round (ms)", [0.0, top]);
    let column = |title: &str| Column { title: title.to_owned(), axis: axis.clone(), even: None };
    let row = |name: &str, samplings: &[&str]| {
        let bar = |sampling: &&str| {
            let found = bars.iter().find(|bar| bar.sampling == *sampling && bar.name == name);
            found.map_or((PlotValue::None, String::new()), |bar| {
                (PlotValue::Bar(bar.parts.to_vec()), bar.cell.clone())
            })
        };
        let (values, keys) = samplings.iter().map(bar).unzip();
        Row { label: name.to_owned(), style: NEUTRAL, values, keys }
    };
    let (columns, groups) = if side_by_side {
        let names = once(bars.iter().map(|bar| bar.name.as_str()));
        let rows = names.iter().map(|name| row(name, &samplings)).collect();
        let columns = samplings.iter().map(|s| column(s)).collect::<Vec<_>>();
        (columns, vec![Group { title: String::new(), rows }])
    } else {
        let group = |sampling: &&str| {
            let own = bars.iter().filter(|bar| bar.sampling == *sampling);
            let rows = own.map(|bar| row(&bar.name, &[*sampling])).collect();
            Group { title: (*sampling).to_owned(), rows }
        };
        (vec![column("")], samplings.iter().map(group).collect())
    };
    let keys = NAMES.into_iter().zip(PARTS);
    let legend =
        keys.map(|(name, colour)| LegendEntry::new(name, LegendSample::Part(colour))).collect();
    let title = "Time per round and where it goes";
    Some(rows_of_cells::page(title, notes, legend, Rows { columns, groups, parts: PARTS.into() }))
}

/// The bars, with plain decoding before the first cell of each sampling setting.
fn bars(data: &Data<'_>, most: usize, notes: &mut Vec<String>) -> Vec<RoundBar> {
    let mut entries = data.run.drafted().collect::<Vec<_>>();
    rows_of_cells::limit(data, &mut entries, most, notes);
    let mut bars = Vec::<RoundBar>::new();
    for cell in entries {
        let sampling = &cell.sampling;
        let plain = bars.iter().any(|bar| bar.sampling == *sampling && bar.name == PLAIN);
        let baseline = cell.baseline.filter(|_| !plain).map(|at| &data.run.cells[at]);
        let baseline = baseline.map(|baseline| (baseline, PLAIN.to_owned()));
        let both = baseline.into_iter().chain([(cell, rows_of_cells::label(data, cell))]);
        let bar = |(own, name): (&CellView, String)| {
            let (sampling, parts) = (sampling.clone(), parts(own)?);
            Some(RoundBar { sampling, name, parts, cell: own.id.clone() })
        };
        bars.extend(both.filter_map(bar));
    }
    bars
}

/// Mean milliseconds per timed round in the order of [`NAMES`]; `None` without rounds.
fn parts(cell: &CellView) -> Option<[f64; 4]> {
    let samples = || timed(&cell.samples);
    let (times, rounds) = (times(samples()), acceptance(samples()).rounds as f64);
    let us = [times.target, times.draft, times.verify, times.other];
    (rounds > 0.0).then(|| us.map(|us| us / 1000.0 / rounds))
}
