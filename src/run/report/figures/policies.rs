//! Draws the speed of draft length policies relative to the best fixed length.

use super::data::{Data, once};
use super::rows_of_cells;
use crate::measure::plot::{
    Axis, Column, Even, Group, LegendEntry, LegendSample, Page, PlotValue, Row, Rows,
};
use crate::run::report::policies::{Policy, policies};

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let mut policies = policies(data.run);
    policies.retain(|p| p.ratio.is_some());
    if policies.is_empty() {
        return None;
    }
    let value = |p: &Policy<'_>| PlotValue::dot(p.ratio, p.interval.map(|i| (i.lo, i.hi)));
    let ends = policies.iter().flat_map(|policy| value(policy).reach());
    let axis = Axis::around_one("speed over that of the best fixed K (×)", ends);
    let row = |policy: &Policy<'_>| Row {
        label: rows_of_cells::label(data, policy.cell),
        style: data.looks.method(&policy.cell.short),
        values: vec![value(policy)],
        keys: vec![policy.cell.id.clone()],
    };
    let titles = once(policies.iter().map(|p| p.cell.sampling.as_str()));
    let groups = titles.iter().map(|title| {
        let own = policies.iter().filter(|p| p.cell.sampling == *title);
        Group { title: (*title).to_owned(), rows: own.map(row).collect() }
    });
    let columns = vec![Column { title: String::new(), axis, even: Some(Even::Loss) }];
    let rows = Rows { columns, groups: groups.collect(), parts: Vec::new() };
    let legend = vec![LegendEntry::new("slower than the best fixed K", LegendSample::Loss)];
    Some(rows_of_cells::page(
        "Draft length policies against the best fixed K",
        Vec::new(),
        legend,
        rows,
    ))
}
