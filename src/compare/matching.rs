//! Which cells of two runs are the same.

use super::side::RunSide;
use crate::experiment::Cell;

/// The cells that both runs have, in the order of the first one: those with the same id and,
/// for the others, those with the same method, draft length, sampling and settings, whose
/// models or texts then differ.
pub(super) fn matched<'a>(first: &'a RunSide, second: &'a RunSide) -> Vec<[&'a Cell; 2]> {
    let same_id = |cell: &&Cell| second.cells().find(|other| other.id == cell.id);
    let taken = |other: &Cell| first.cells().any(|cell| cell.id == other.id);
    let same_method = |cell: &&Cell| {
        let same = |other: &&Cell| (&other.method, &other.beam) == (&cell.method, &cell.beam);
        second.cells().filter(|other| !taken(other)).find(same)
    };
    let pair = |cell: &'a Cell| Some([cell, same_id(&cell).or_else(|| same_method(&cell))?]);
    first.cells().filter_map(pair).collect()
}
