//! Which cells of two runs are the same.

use std::collections::BTreeMap;

use super::side::RunSide;
use crate::run::report::CellView;

/// The places of the cells that both runs have, in the order of the first one: those with the same
/// id and, for the others, those with the same method, draft length, sampling and settings, whose
/// models or texts then differ.
pub(super) fn matched(first: &RunSide, second: &RunSide) -> Vec<[usize; 2]> {
    let [own, theirs] = [first, second]
        .map(|side| side.cells().map(|(at, cell)| (&*cell.id, at)).collect::<BTreeMap<_, _>>());
    let same_method = |cell: &CellView| {
        let same = |other: &CellView| (&other.method, &other.beam) == (&cell.method, &cell.beam);
        second.cells().find(|(_, other)| !own.contains_key(&*other.id) && same(other))
    };
    let pair = |(at, cell): (usize, &CellView)| {
        let same_id = theirs.get(&*cell.id).copied();
        Some([at, same_id.or_else(|| Some(same_method(cell)?.0))?])
    };
    first.cells().filter_map(pair).collect()
}
