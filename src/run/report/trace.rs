//! For traced runs: acceptance as a function of the target's entropy.

use super::document::{DocBlock, TableCell};
use super::reached::Reached;
use super::run::Run;
use super::tables::{columns, lines, number};
use crate::measure::statistics::deciles;

/// The section on acceptance by decile of the target's entropy, with one row per series;
/// empty if the run was not traced.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let longest = run.series().filter_map(|series| series.longest());
    let table = lines(longest, |cell| line(&cell.reached));
    let head = columns(&[
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
    ]);
    DocBlock::section(
        "Acceptance by the target's entropy",
        "Share of the reached drafted tokens that were accepted, by decile of the entropy of \
         the target's distribution at their position; in the first decile the target is most \
         certain.",
        &head,
        table,
    )
}

/// Number of positions, median entropy and acceptance by decile; `None` if all entropies are
/// equal, as at temperature 0.
fn line(reached: &Reached) -> Option<Vec<TableCell>> {
    let entropies = reached.entropies();
    let cuts = deciles(&entropies)?;
    if cuts[0] == cuts[10] {
        return None;
    }
    let share =
        |(n, accepted): (usize, usize)| number((n > 0).then(|| accepted as f64 / n as f64), 2);
    let mut line = vec![entropies.len().into(), number(Some(cuts[5]), 2)];
    line.extend(reached.by_decile(&cuts[1..10]).map(share));
    Some(line)
}
