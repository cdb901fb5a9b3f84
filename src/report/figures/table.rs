//! Figures with one row per cell, grouped by sampling setting and labelled by method and K.

use super::data::{Data, TableEntry, once};
use crate::experiment::Cell;
use crate::plot::{Body, Column, Group, LegendEntry, Page, PlotRow, PlotRows, PlotValue};
use crate::report::series::Series;

/// The maximum number of rows on a page.
pub(super) const MOST: usize = 60;
/// Labels with more characters than this may need a second line.
const LONG: usize = 50;

/// Limits the entries to `most`, or to two thirds of that if labels may need two lines. Keeps
/// the fastest cells of every sampling setting; if there are more settings than rows, keeps
/// the first settings.
pub(super) fn limit(
    data: &Data<'_>,
    entries: &mut Vec<TableEntry<'_>>,
    most: usize,
    notes: &mut Vec<String>,
) {
    let all = entries.len();
    let long = |e: &TableEntry<'_>| label(data, e.series, e.cell).chars().count() > LONG;
    let most = if entries.iter().any(long) { most * 2 / 3 } else { most };
    if all <= most {
        return;
    }
    let settings = once(entries.iter().map(|e| e.series.sampling.as_str())).len();
    let share = (most / settings).max(1);
    let speedup = |e: &TableEntry<'_>| e.row.speedup.unwrap_or(0.0);
    let faster = |a: &TableEntry<'_>, b: &TableEntry<'_>| {
        a.series.sampling == b.series.sampling && speedup(a) > speedup(b)
    };
    let rank = |e: &TableEntry<'_>| entries.iter().filter(|other| faster(other, e)).count();
    let mut kept = entries.iter().map(|e| rank(e) < share).collect::<Vec<_>>().into_iter();
    entries.retain(|_| kept.next().unwrap_or(false));
    entries.truncate(most);
    let left = once(entries.iter().map(|e| e.series.sampling.as_str())).len();
    let of = if left < settings {
        format!("the first {left} of {settings} sampling settings")
    } else {
        "every sampling setting".to_owned()
    };
    notes.push(format!("{} of {all} cells: the fastest of {of}.", entries.len()));
}

/// One row per entry, in one group per sampling setting.
pub(super) fn rows(
    data: &Data<'_>,
    columns: Vec<Column>,
    entries: &[TableEntry<'_>],
    values: impl Fn(&TableEntry<'_>) -> Vec<PlotValue>,
) -> PlotRows {
    let group = |title: &&str| {
        let own = entries.iter().filter(|e| e.series.sampling == *title);
        let row = |e: &TableEntry<'_>| PlotRow {
            label: label(data, e.series, e.cell),
            style: data.looks.method(&e.series.method),
            values: values(e),
            keys: vec![e.cell.id.clone(); columns.len()],
        };
        Group { title: (*title).to_owned(), rows: own.map(row).collect() }
    };
    let titles = once(entries.iter().map(|e| e.series.sampling.as_str()));
    let groups = tidy(titles.iter().map(group).collect());
    PlotRows { columns, groups, parts: Vec::new() }
}

/// Removes the title if there is only one group. Moves the title of a group with a single
/// row into the label of that row, and merges such groups.
fn tidy(mut groups: Vec<Group>) -> Vec<Group> {
    if let [only] = groups.as_mut_slice() {
        only.title.clear();
        return groups;
    }
    let mut tidy = Vec::<Group>::new();
    for mut group in groups {
        if let [row] = group.rows.as_mut_slice() {
            row.label = format!("{}: {}", group.title, row.label);
            group.title.clear();
        }
        match tidy.last_mut().filter(|last| last.title.is_empty() && group.title.is_empty()) {
            Some(last) => last.rows.append(&mut group.rows),
            None => tidy.push(group),
        }
    }
    tidy
}

/// The name of the method, followed by K if the method has several.
pub(super) fn label(data: &Data<'_>, series: &Series<'_>, cell: &Cell) -> String {
    let mut same = data.series.iter().filter(|s| s.method == series.method).flat_map(|s| &s.cells);
    let k = cell.method.num_speculative_tokens;
    if same.any(|other| other.method.num_speculative_tokens != k) {
        format!("{}, K = {k}", series.method)
    } else {
        series.method.clone()
    }
}

pub(super) fn page(
    title: &str,
    notes: Vec<String>,
    legend: Vec<LegendEntry>,
    rows: PlotRows,
) -> Page {
    Page { title: title.to_owned(), notes, legend, body: Body::Rows(rows) }
}
