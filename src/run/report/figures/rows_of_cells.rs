//! Figures with one row per cell, grouped by sampling setting and labelled by method and K.

use super::data::{Data, once};
use crate::measure::plot::{Body, Column, Group, LegendEntry, Page, PlotValue, Row, Rows};
use crate::method::decode::MethodSpec;
use crate::run::report::run::CellView;

/// The maximum number of rows on a page.
pub(super) const MOST: usize = 60;
/// Labels with more characters than this may need a second line.
const LONG: usize = 50;

/// Limits the entries to `most`, or to two thirds of that if labels may need two lines. Keeps
/// the foremost cells of every sampling setting; if there are more settings than rows, keeps
/// the first settings.
pub(super) fn limit(
    data: &Data<'_>,
    entries: &mut Vec<&CellView>,
    most: usize,
    notes: &mut Vec<String>,
) {
    let all = entries.len();
    let long = |cell: &&CellView| label(data, cell).chars().count() > LONG;
    let most = if entries.iter().any(long) { most * 2 / 3 } else { most };
    if all <= most {
        return;
    }
    let settings = once(entries.iter().map(|cell| cell.sampling.as_str())).len();
    let share = (most / settings).max(1);
    let before = |(i, a): (usize, &&CellView), (j, b): (usize, &&CellView)| {
        let (first, second) = (data.speed(a), data.speed(b));
        a.sampling == b.sampling && (first > second || first == second && i < j)
    };
    let rank = |e| entries.iter().enumerate().filter(|other| before(*other, e)).count();
    let kept = entries.iter().enumerate().map(|e| rank(e) < share);
    let mut kept = kept.collect::<Vec<_>>().into_iter();
    entries.retain(|_| kept.next().unwrap_or(false));
    entries.truncate(most);
    let left = once(entries.iter().map(|cell| cell.sampling.as_str())).len();
    let of = if left < settings {
        format!("the first {left} of {settings} sampling settings")
    } else {
        "every sampling setting".to_owned()
    };
    let foremost = data.foremost();
    notes.push(format!("{} of {all} cells: {foremost} of {of}.", entries.len()));
}

/// One row per entry, in one group per sampling setting.
pub(super) fn rows(
    data: &Data<'_>,
    columns: Vec<Column>,
    entries: &[&CellView],
    values: impl Fn(&CellView) -> Vec<PlotValue>,
) -> Rows {
    let group = |title: &&str| {
        let own = entries.iter().filter(|cell| cell.sampling == *title);
        let row = |cell: &&CellView| Row {
            label: label(data, cell),
            style: data.looks.method(&cell.short),
            values: values(cell),
            keys: vec![cell.id.clone(); columns.len()],
        };
        Group { title: (*title).to_owned(), rows: own.map(row).collect() }
    };
    let titles = once(entries.iter().map(|cell| cell.sampling.as_str()));
    let groups = tidy(titles.iter().map(group).collect());
    Rows { columns, groups, parts: Vec::new() }
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

/// The name of the method, followed by K if the run has several. The shape of a tree has its K.
pub(super) fn label(data: &Data<'_>, cell: &CellView) -> String {
    let MethodSpec { num_speculative_tokens: k, params, .. } = &cell.method;
    match data.lengths_differ() && params.set("tree").is_none() {
        true => format!("{}, K = {k}", cell.short),
        false => cell.short.clone(),
    }
}

pub(super) fn page(title: &str, notes: Vec<String>, legend: Vec<LegendEntry>, rows: Rows) -> Page {
    Page { title: title.to_owned(), notes, legend, body: Body::Rows(rows) }
}
