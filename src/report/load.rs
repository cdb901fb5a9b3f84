//! Reads the raw rows of a results folder into [`Results`].

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};

use super::accounts::{Accounts, BlockAccount};
use super::check::misfits;
use super::controls;
use super::results::Results;
use crate::experiment::blocks::Places;
use crate::experiment::{Manifest, Plan, read_plan};
use crate::rows::{BlockDigest, BlockRow, Raw};
use crate::statistics::Sample;

/// Reads a results folder. Leaves out, with a note, a last line that was torn by a crash,
/// blocks that are not listed as done, and blocks whose rows are not those that were
/// written.
///
/// # Errors
/// If a file is missing or malformed, or contradicts another one; the message names it.
pub fn load(folder: &Path) -> Result<Results> {
    check_folder(folder)?;
    let plan = read_plan(folder)?;
    let manifest = Manifest::read(folder)?;
    let mut costs = manifest.sessions.iter().flat_map(|session| session.calibration.cells.keys());
    if let Some(id) = costs.find(|id| plan.cells.iter().all(|cell| cell.id != **id)) {
        bail!("manifest.json has costs of cell {id}, which plan.toml does not know");
    }
    let mut accounts = Accounts::new(&plan);
    let raw = Raw::read(folder, Places::new(&plan).lookup(), &mut accounts)?;
    let accounts = accounts.end();
    let mut notes = raw
        .torn
        .iter()
        .map(|name| format!("The last line of {name} was torn by a crash and is left out."))
        .collect::<Vec<_>>();
    notes.extend(manifest.left_out.iter().map(|sentence| format!("In merging: {sentence}.")));
    if raw.superseded > 0 {
        let superseded = raw.superseded;
        notes.push(format!("{superseded} generations of blocks that were run again are left out."));
    }
    if let Some(stranger) = &raw.stranger {
        bail!("{stranger}");
    }
    let (blocks, accounts) = whole_blocks(&raw, accounts, &mut notes)?;
    let sessions = manifest.sessions.len();
    if let Some(block) = blocks.iter().find(|block| block.session >= sessions) {
        bail!("blocks.csv names session {}, which manifest.json does not know", block.session);
    }
    let standing = raw.standing();
    let unlisted = raw.found.keys().filter(|number| !standing.contains_key(number)).count();
    if unlisted > 0 {
        notes.push(format!("{unlisted} blocks that were not finished are left out."));
    }
    // Not needed while the samples move.
    drop(raw);
    collect(plan, manifest, blocks, accounts, notes)
}

/// Refuses a path that is no folder.
pub(super) fn check_folder(folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        bail!("{} is not a folder: give the results folder of a run", folder.display());
    }
    Ok(())
}

/// The blocks that count, and their accounts. Notes what is wrong with the others.
fn whole_blocks(
    raw: &Raw,
    mut accounts: BTreeMap<usize, BlockAccount>,
    notes: &mut Vec<String>,
) -> Result<(Vec<BlockRow>, Vec<BlockAccount>)> {
    let (standing, nothing) = (raw.standing(), BlockDigest::default());
    let most = standing.len();
    let mut whole = (Vec::with_capacity(most), Vec::with_capacity(most));
    for (number, block) in standing {
        let account = accounts.remove(&number).unwrap_or_default();
        let mut wrong = misfits(block, raw.found.get(&number).unwrap_or(&nothing))?;
        wrong.extend_from_slice(&account.wrong);
        if wrong.is_empty() {
            whole.0.push(block.clone());
            whole.1.push(account);
        } else {
            notes.push(format!(
                "Block {number} (prompt {}, repeat {}) is left out: {}.",
                block.prompt,
                block.repeat,
                wrong.join("; ")
            ));
        }
    }
    Ok(whole)
}

/// Joins the accounts of the blocks and decides which times count.
fn collect(
    plan: Plan,
    manifest: Manifest,
    blocks: Vec<BlockRow>,
    accounts: Vec<BlockAccount>,
    notes: Vec<String>,
) -> Result<Results> {
    if manifest.sessions.is_empty() {
        bail!("manifest.json names no session: nothing says who wrote the rows");
    }
    let groups = manifest.groups();
    let session = most_common(&groups, &blocks);
    let mut results = Results {
        plan,
        manifest,
        blocks,
        samples: BTreeMap::new(),
        failures: Vec::new(),
        divergences: Vec::new(),
        reached: BTreeMap::new(),
        notes,
        session,
        groups: BTreeMap::new(),
        differing: 0,
    };
    let all = results.is_disturbed();
    let cells = results.plan.cells.iter().map(|cell| cell.id.clone()).collect::<Vec<_>>();
    // A list that grows exists next to its copy for a moment; together they are most of the memory.
    let mut sizes = vec![0; cells.len()];
    accounts.iter().flat_map(|own| &own.samples).for_each(|(cell, _)| sizes[*cell] += 1);
    let mut samples = sizes.iter().map(|&size| Vec::with_capacity(size)).collect::<Vec<_>>();
    let mut groups_of = sizes.iter().map(|&size| Vec::with_capacity(size)).collect::<Vec<_>>();
    for (block, account) in results.blocks.iter().zip(accounts) {
        // If most blocks were disturbed, dropping them would leave too few: all times count,
        // and no verdict is given.
        let group = (all || !block.disturbed).then_some(groups[block.session]);
        let timed = group == Some(session);
        for (cell, sample) in account.samples {
            groups_of[cell].push(group);
            samples[cell].push(Sample { timed, ..sample });
        }
        for (cell, reached) in account.reached {
            results.reached.entry(cells[cell].clone()).or_default().extend(&reached);
        }
        results.failures.extend(account.failures);
        results.divergences.extend(account.divergences);
    }
    results.samples = by_id(&cells, samples);
    results.groups = by_id(&cells, groups_of);
    results.differing = controls::differing(&results);
    Ok(results)
}

/// The lists of cells by their ids, without those that are empty.
fn by_id<T>(ids: &[String], lists: Vec<Vec<T>>) -> BTreeMap<String, Vec<T>> {
    let cells = ids.iter().cloned().zip(lists);
    cells.filter(|(_, list)| !list.is_empty()).collect()
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
