//! For traced runs: acceptance as a function of the target's entropy.

use std::collections::BTreeMap;

use super::results::Results;
use super::series::Series;
use super::tables::{markdown, number};
use crate::rows::PositionRow;
use crate::statistics::deciles;

/// The section on acceptance by decile of the target's entropy, with one row per series;
/// empty if the run was not traced.
pub(super) fn section(results: &Results, series: &[Series<'_>]) -> String {
    let mut table = Vec::new();
    for series in series {
        let Some(cell) = series.longest(results) else { continue };
        let Some(line) = line(&reached(results, &cell.id)) else { continue };
        table.push([series.line(cell), line].concat());
    }
    if table.is_empty() {
        return String::new();
    }
    let head = [
        "method",
        "sampling",
        "class",
        "K:",
        "positions:",
        "median entropy (nats):",
        "1st:",
        "2nd:",
        "3rd:",
        "4th:",
        "5th:",
        "6th:",
        "7th:",
        "8th:",
        "9th:",
        "10th:",
    ];
    format!(
        "## Acceptance by the target's entropy\n\n\
         Share of the reached drafted tokens that were accepted, by decile of the entropy of the \
         target's distribution at their position; in the first decile the target is most \
         certain.\n\n{}\n",
        markdown(&head, &table)
    )
}

/// The drafted tokens of a cell that the verifier decided on: the children of the context
/// and of every accepted token, each up to and including the accepted child.
fn reached<'a>(results: &'a Results, cell: &str) -> Vec<&'a PositionRow> {
    let rows = || results.positions.iter().filter(|p| p.cell == cell);
    let round = |p: &'a PositionRow| (p.prompt.as_str(), p.repeat, p.round);
    let mut paths = BTreeMap::<_, Vec<&PositionRow>>::new();
    rows().filter(|p| p.accepted).for_each(|p| paths.entry(round(p)).or_default().push(p));
    let decided = |p: &&'a PositionRow| {
        let path = paths.get(&round(p)).map_or(&[][..], Vec::as_slice);
        let below = p.parent.is_none_or(|parent| path.iter().any(|kept| kept.node == parent));
        below && !path.iter().any(|kept| kept.parent == p.parent && kept.node < p.node)
    };
    rows().filter(decided).collect()
}

/// Number of positions, median entropy and acceptance by decile; `None` if all entropies are
/// equal, as at temperature 0.
fn line(positions: &[&PositionRow]) -> Option<Vec<String>> {
    let entropies = positions.iter().map(|p| p.p_entropy).collect::<Vec<_>>();
    let cuts = deciles(&entropies)?;
    if cuts[0] == cuts[10] {
        return None;
    }
    let mut counts = [(0usize, 0usize); 10];
    for position in positions {
        let decile = cuts[1..10].iter().filter(|cut| **cut < position.p_entropy).count();
        counts[decile].0 += 1;
        counts[decile].1 += usize::from(position.accepted);
    }
    let share =
        |(n, accepted): (usize, usize)| number((n > 0).then(|| accepted as f64 / n as f64), 2);
    let mut line = vec![positions.len().to_string(), number(Some(cuts[5]), 2)];
    line.extend(counts.map(share));
    Some(line)
}
