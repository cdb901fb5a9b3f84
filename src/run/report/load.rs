//! Reads the raw rows of a results folder into a [`Run`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};

use super::accounts::{Accounts, BlockAccount};
use super::best::best;
use super::check::misfits;
use super::controls::differing;
use super::held_out::predictions;
use super::loops::verdict;
use super::run::Run;
use super::series::grouped;
use super::summary::{summary, survival};
use super::validity::TimesValidity;
use crate::measure::rows::{BlockDigest, BlockRow, Raw};
use crate::measure::statistics::Sample;
use crate::run::experiment::blocks::Places;
use crate::run::experiment::{Manifest, Plan, read_plan};

/// Reads a results folder. Leaves out, with a note, a last line that was torn by a crash,
/// blocks that are not listed as done, and blocks whose rows are not those that were
/// written.
///
/// # Errors
/// If a file is missing or malformed, or contradicts another one; the message names it.
pub fn load(folder: &Path) -> Result<Run> {
    check_folder(folder)?;
    let plan = read_plan(folder)?;
    let manifest = Manifest::read(folder)?;
    if manifest.sessions.is_empty() {
        bail!("manifest.json names no session: nothing says who wrote the rows");
    }
    let mut costs = manifest.sessions.iter().flat_map(|session| session.calibration.cells.keys());
    let known = plan.cells.iter().map(|cell| &cell.id).collect::<BTreeSet<_>>();
    if let Some(id) = costs.find(|id| !known.contains(id)) {
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
    Ok(built(plan, manifest, blocks, accounts, notes))
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

/// The run of a plan of which these blocks are done; `accounts` has what is known of each.
fn built(
    plan: Plan,
    manifest: Manifest,
    blocks: Vec<BlockRow>,
    accounts: Vec<BlockAccount>,
    notes: Vec<String>,
) -> Run {
    let (cells, series) = grouped(&plan);
    let session = most_common(&manifest.groups(), &blocks);
    let times = TimesValidity::default();
    let mut run =
        Run { plan, manifest, blocks, cells, times, notes, session, differing: 0, series };
    run.times = run.validity();
    deal(&mut run, accounts);
    run.differing = differing(&run);
    run.times = run.validity();
    for (cell, found) in predictions(&run) {
        run.cells[cell].held_out = Some(found);
    }
    let rows = summary(&run);
    for (cell, row) in run.cells.iter_mut().zip(rows) {
        cell.survival = if cell.series.is_some() { survival(cell) } else { Vec::new() };
        cell.verdict = verdict(&run.times, &row);
        cell.row = row;
    }
    let best = run.series().map(|series| best(&run, &series)).collect::<Vec<_>>();
    for (best, places) in best.into_iter().zip(&run.series) {
        if let Some(best) = best {
            run.cells[places[best]].best = true;
        }
    }
    run
}

/// Gives every cell what the blocks have of it, and decides which times count.
fn deal(run: &mut Run, accounts: Vec<BlockAccount>) {
    let groups = run.manifest.groups();
    // If most blocks were disturbed, dropping them would leave too few: all times count,
    // and no verdict is given.
    let all = run.is_disturbed();
    // A list that grows exists next to its copy for a moment; together they are most of the memory.
    let mut sizes = vec![0; run.cells.len()];
    for (cell, _) in accounts.iter().flat_map(|own| &own.samples) {
        sizes[*cell] += 1;
    }
    for (cell, size) in run.cells.iter_mut().zip(sizes) {
        cell.samples = Vec::with_capacity(size);
        cell.groups = Vec::with_capacity(size);
    }
    for (block, account) in run.blocks.iter().zip(accounts) {
        let group = (all || !block.disturbed).then_some(groups[block.session]);
        let timed = group == Some(run.session);
        for (cell, sample) in account.samples {
            run.cells[cell].groups.push(group);
            run.cells[cell].samples.push(Sample { timed, ..sample });
        }
        for (cell, reached) in account.reached {
            run.cells[cell].reached.extend(&reached);
        }
        for (cell, row) in account.failures {
            run.cells[cell].failures.push(row);
        }
        for (cell, row) in account.divergences {
            run.cells[cell].divergences.push(row);
        }
    }
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
