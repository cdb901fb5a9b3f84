//! Reads the raw rows of a results folder into [`Results`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};

use super::check::misfits;
use super::controls;
use super::results::{Results, disturbed_share};
use crate::experiment::blocks::Places;
use crate::experiment::{MOST_DISTURBED, Manifest, Plan, read_plan};
use crate::rows::{BlockRow, BlockRows, Raw, RoundRow};
use crate::statistics::Sample;

/// Reads a results folder. Leaves out, with a note, a last line that was torn by a crash,
/// blocks that are not listed as done, and blocks whose rows are not those that were
/// written.
///
/// # Errors
/// If a file is missing or malformed, or contradicts another one; the message names it.
pub fn load(folder: &Path) -> Result<Results> {
    if !folder.is_dir() {
        bail!("{} is not a folder: give the results folder of a run", folder.display());
    }
    let plan = read_plan(folder)?;
    let manifest = Manifest::read(folder)?;
    let mut costs = manifest.sessions.iter().flat_map(|session| session.calibration.cells.keys());
    if let Some(id) = costs.find(|id| plan.cells.iter().all(|cell| cell.id != **id)) {
        bail!("manifest.json has costs of cell {id}, which plan.toml does not know");
    }
    let raw = Raw::read(folder)?;
    let mut notes = raw
        .torn
        .iter()
        .map(|name| format!("The last line of {name} was torn by a crash and is left out."))
        .collect::<Vec<_>>();
    let superseded = raw.generations.iter().filter(|g| g.superseded).count();
    if superseded > 0 {
        notes.push(format!("{superseded} generations of blocks that were run again are left out."));
    }
    let (mut rows, stranger) = raw.by_block(Places::new(&plan).lookup());
    if let Some(stranger) = stranger {
        bail!(stranger);
    }
    let mut blocks = Vec::new();
    for (number, block) in raw.standing() {
        let found = rows.entry(number).or_default();
        let wrong = misfits(&plan, block, found)?;
        if wrong.is_empty() {
            blocks.push(block.clone());
        } else {
            notes.push(format!(
                "Block {number} (prompt {}, repeat {}) is left out: {}.",
                block.prompt,
                block.repeat,
                wrong.join("; ")
            ));
        }
    }
    if let Some(block) = blocks.iter().find(|block| block.session >= manifest.sessions.len()) {
        bail!("blocks.csv names session {}, which manifest.json does not know", block.session);
    }
    let sound = blocks.iter().map(|block| block.block).collect::<BTreeSet<_>>();
    let unlisted = rows.keys().filter(|number| !raw.standing().contains_key(number)).count();
    if unlisted > 0 {
        notes.push(format!("{unlisted} blocks that were not finished are left out."));
    }
    rows.retain(|number, _| sound.contains(number));
    collect(plan, manifest, blocks, rows, notes)
}

/// Joins generations with their rounds and decides which times count.
fn collect(
    plan: Plan,
    manifest: Manifest,
    blocks: Vec<BlockRow>,
    rows: BTreeMap<usize, BlockRows>,
    notes: Vec<String>,
) -> Result<Results> {
    if manifest.sessions.is_empty() {
        bail!("manifest.json names no session: nothing says who wrote the rows");
    }
    let groups = manifest.groups();
    let session = most_common(&groups, &blocks);
    let all = disturbed_share(&blocks) > MOST_DISTURBED;
    let mut results = Results {
        plan,
        manifest,
        blocks,
        samples: BTreeMap::new(),
        failures: Vec::new(),
        divergences: Vec::new(),
        positions: Vec::new(),
        notes,
        session,
        differing: 0,
    };
    for (block, (_, rows)) in results.blocks.iter().zip(rows) {
        // If most blocks were disturbed, dropping them would leave too few: all times count,
        // and no verdict is given.
        let timed = groups[block.session] == session && (all || !block.disturbed);
        let mut rounds = BTreeMap::<String, Vec<RoundRow>>::new();
        for round in rows.rounds {
            rounds.entry(round.cell.clone()).or_default().push(round);
        }
        for generation in rows.generations {
            let cell = generation.cell.clone();
            let rounds = rounds.remove(&cell).unwrap_or_default();
            results.samples.entry(cell).or_default().push(Sample { generation, rounds, timed });
        }
        results.failures.extend(rows.failures);
        results.divergences.extend(rows.divergences);
        results.positions.extend(rows.positions);
    }
    results.differing = controls::differing(&results);
    Ok(results)
}

/// The group of comparable sessions with the most undisturbed blocks; the earliest if
/// several have equally many.
fn most_common(groups: &[usize], blocks: &[BlockRow]) -> usize {
    let count = |group: usize| {
        let own = blocks.iter().filter(|block| groups[block.session] == group);
        own.filter(|block| !block.disturbed).count()
    };
    groups.iter().copied().rev().max_by_key(|&group| count(group)).unwrap_or(0)
}
