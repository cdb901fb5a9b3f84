//! Acceptance by the length of drafts and by the distance to the end of the completion.

use super::document::{DocBlock, TableCell};
use super::run::{CellView, Run};
use super::tables::{columns, lines, number};
use crate::io::shown::count;
use crate::measure::statistics::{Sample, distances, placed, range_name, ranges, rounds};

/// The sections on acceptance by drafted length and by distance to the end, with the cell with the
/// longest draft of every series; empty without drafts.
pub(super) fn sections(run: &Run) -> Vec<DocBlock> {
    let cells = run.series().filter_map(|series| series.longest());
    let cells = cells.filter(|cell| rounds(&cell.samples).any(|round| round.depth > 0));
    let cells = cells.collect::<Vec<_>>();
    let all = || cells.iter().flat_map(|cell| &cell.samples);
    let lengths = ranges(rounds(all()).map(|round| round.depth).max().unwrap_or(0));
    let by_length = section(
        &cells,
        "Acceptance by drafted length",
        "Accepted ÷ drafted tokens of the rounds that drafted this many tokens (of a tree: its \
         depth), in the cell with the longest draft. Near the end of a completion drafts are cut; \
         policies and lookups also draft less elsewhere.",
        &lengths,
        |cell| {
            let drafted = rounds(&cell.samples).map(|round| (round.depth, round));
            let found = placed(drafted, &lengths);
            found.iter().map(|own| shown(own.acceptance_rate(), own.rounds)).collect()
        },
    );
    let longest = all().map(|sample: &Sample| sample.new_tokens).max().unwrap_or(0);
    // Drafts are cut near the end, so single tokens there have few rounds each.
    let near = ranges(8).len();
    let ends = [(1, 8)].into_iter().chain(ranges(longest).into_iter().skip(near));
    let ends = ends.collect::<Vec<_>>();
    let by_distance = section(
        &cells,
        "Acceptance by distance to the end",
        "Accepted ÷ reached tokens of the rounds that began this many tokens before the end of \
         their completion, in the same cells. A drafted token is reached if all before it were \
         accepted, so the share does not depend on how far drafts are cut.",
        &ends,
        |cell| {
            let found = placed(distances(&cell.samples), &ends);
            found.iter().map(|own| shown(own.conditional(), own.rounds)).collect()
        },
    );
    by_length.into_iter().chain(by_distance).collect()
}

fn section(
    cells: &[&CellView],
    heading: &'static str,
    words: &str,
    ranges: &[(usize, usize)],
    places: impl Fn(&CellView) -> Vec<TableCell>,
) -> Vec<DocBlock> {
    let heads = ranges.iter().map(|range| range_name(*range) + ":").collect::<Vec<_>>();
    let heads = columns(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    let rows = lines(cells.iter().copied(), |cell| Some(places(cell)));
    DocBlock::section(heading, words, &heads, rows)
}

/// A share with its number of rounds; the rounds alone if nothing was drafted.
fn shown(share: Option<f64>, rounds: usize) -> TableCell {
    let text = match (share, rounds) {
        (_, 0) => return number(None, 2),
        (Some(share), rounds) => format!("{share:.2} ({rounds})"),
        (None, rounds) => count(rounds, "round"),
    };
    TableCell::shown_as(text, share)
}
