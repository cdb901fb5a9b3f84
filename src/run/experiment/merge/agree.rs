//! Chooses among folders that have the same block, and checks that they agree.

use std::collections::BTreeMap;

use anyhow::Result;

use super::super::blocks::Places;
use super::super::cell::{Cell, Plan, describe};
use super::part::RunPart;
use crate::measure::rows::{BLOCK_FILES, BlockRow, TextRow, each_row};

/// Methods whose draws depend on what the clock shows, so that a repetition may give another
/// text of the same distribution.
const READ_THE_CLOCK: [&str; 3] = ["ucb", "optimal_stopping", "tree_optimal"];

/// The block of a part that stands for all that have it.
#[derive(Debug)]
pub(super) struct TakenBlock<'a> {
    /// The number of the part.
    pub(super) part: usize,
    pub(super) row: &'a BlockRow,
}

/// Chooses a part for every block that any has: the first one in which it was not disturbed, or
/// else the first. Also returns a sentence for every block whose parts differ; it has none.
pub(super) fn choose<'a>(
    plan: &Plan,
    parts: &'a [RunPart],
) -> Result<(BTreeMap<usize, TakenBlock<'a>>, Vec<String>)> {
    let mut all = BTreeMap::<usize, Vec<usize>>::new();
    for (number, part) in parts.iter().enumerate() {
        for &block in part.blocks.keys() {
            all.entry(block).or_default().push(number);
        }
    }
    let (mut taken, mut differing) = (BTreeMap::new(), Vec::new());
    for (block, owners) in all {
        let row = |part: usize| &parts[part].blocks[&block].0;
        let first = owners[0];
        let other =
            owners[1..].iter().map(|&other| differs(plan, block, [&parts[first], &parts[other]]));
        let other = other.collect::<Result<Vec<_>>>()?.into_iter().flatten().next();
        if let Some(how) = other {
            let BlockRow { prompt, repeat, .. } = row(first);
            differing.push(format!(
                "block {block} (prompt {prompt}, repeat {repeat}) is left out: {how}"
            ));
            continue;
        }
        let best = owners.iter().copied().find(|&part| !row(part).disturbed).unwrap_or(first);
        taken.insert(block, TakenBlock { part: best, row: row(best) });
    }
    Ok((taken, differing))
}

/// How two parts differ in a block that both have, where they must not.
fn differs(plan: &Plan, block: usize, pair: [&RunPart; 2]) -> Result<Option<String>> {
    let listed = pair.map(|part| part.blocks[&block].1.digests());
    let names = pair.map(RunPart::name).join(" and ");
    if listed[0] == listed[1] {
        return Ok(None);
    }
    if texts_in(&listed[0]) != texts_in(&listed[1]) {
        let [first, second] = pair.map(|part| texts(plan, block, part));
        let (first, second) = (first?, second?);
        let other = |(key, text): &(&(String, String), &String)| second.get(*key) != Some(*text);
        if let Some(((cell, prompt), _)) = first.iter().find(other) {
            let cell = plan.cells.iter().find(|found| found.id == *cell);
            let cell = cell.map_or_else(String::new, describe);
            return Ok(Some(format!(
                "{names} have different texts of \"{cell}\" for prompt {prompt}"
            )));
        }
        if first.len() != second.len() {
            return Ok(Some(format!("{names} have texts of different cells")));
        }
    }
    // Times are measured, unless the virtual clock sets them.
    let exempt =
        plan.clock != "virtual" || plan.cells.iter().any(|cell| !is_repeatable(plan, cell));
    Ok((!exempt).then(|| format!("{names} have different rows of it under the virtual clock")))
}

fn texts_in(digests: &[String]) -> Option<&String> {
    BLOCK_FILES.iter().zip(digests).find(|(file, _)| **file == "generations.jsonl").map(|(_, d)| d)
}

/// The texts of a block's cells that promise to repeat them, as they are written, by cell and
/// prompt.
fn texts(plan: &Plan, block: usize, part: &RunPart) -> Result<BTreeMap<(String, String), String>> {
    let places = Places::new(plan);
    let promised = plan.cells.iter().filter(|cell| is_repeatable(plan, cell));
    let promised = promised.map(|cell| &*cell.id).collect::<Vec<_>>();
    let mut found = BTreeMap::new();
    each_row(&part.path, |row: TextRow| {
        let here = places.block(&row.cell, &row.prompt, row.repeat) == Some(block);
        if here && promised.contains(&&*row.cell) {
            let text = serde_json::to_string(&row)?;
            found.insert((row.cell, row.prompt), text);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Whether a cell's text is the same on every machine. An engine that is not row-invariant
/// rounds as its machine does.
fn is_repeatable(plan: &Plan, cell: &Cell) -> bool {
    let method = &cell.method;
    let reads = READ_THE_CLOCK.iter().any(|name| method.length == *name || method.drafter == *name);
    let timed = reads && plan.clock != "virtual" && !cell.is_determined();
    !timed && !cell.class.contains('~')
}
