//! Merges the results folders of one plan's parts into one folder, whose rows are in the
//! order of the plan.

mod absent;
mod agree;
mod part;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::absent::absent;
use self::agree::{TakenBlock, choose};
use self::part::{RunPart, RunParts};
use self::write::write_rows;
use super::cell::Plan;
use super::folder::fill;
use super::manifest::{Manifest, MergedPart, RunSession, Status};
use super::shares::hidden_folder;
use crate::measure::rows::BlockRow;

/// What a merge has made.
#[derive(Debug)]
pub struct Merged {
    /// The folder.
    pub folder: PathBuf,
    /// How many blocks it has, and how many the plan.
    pub blocks: (usize, usize),
    /// What is missing, corrupt or left out: one sentence each.
    pub left_out: Vec<String>,
}

/// Merges results folders, or all results folders within folders, into the new folder `out`,
/// which `report` reads like that of any run. What is missing or damaged is left out and named.
///
/// A block that several folders have must have the same texts in each of them, where its
/// methods promise the same text, and under the virtual clock the same rows. It is then taken
/// once, from an undisturbed attempt if there is one; otherwise it is left out. Files that are
/// longer than `pack_above` bytes become segments, at the blocks at which those of a run do.
///
/// # Errors
/// If `out` is not empty, the folders are of different plans, no folder is sound, or a file
/// cannot be written.
pub fn merge(folders: &[PathBuf], out: &Path, pack_above: u64) -> Result<Merged> {
    refuse_full(out)?;
    let RunParts { plan, parts, mut left_out } = RunParts::read(folders)?;
    left_out.extend(parts.iter().flat_map(|part| part.damaged.iter().cloned()));
    let (taken, differing) = choose(&plan, &parts)?;
    left_out.extend(differing);
    let planned = plan.blocks();
    left_out.extend(absent(&plan, &parts, &taken, planned));
    let (manifest, blocks) = join(&plan, &parts, &taken, (taken.len(), planned), &left_out)?;
    let parent = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let cannot = |path: &Path| format!("cannot make the folder {}", path.display());
    std::fs::create_dir_all(parent).with_context(|| cannot(parent))?;
    let (new, mut lock) = hidden_folder(parent)?;
    let written = || -> Result<()> {
        fill(&new, &plan, &manifest)?;
        write_rows(&new, &plan, &parts, &taken, &blocks, pack_above)?;
        std::fs::rename(&new, out).with_context(|| cannot(out))
    };
    if let Err(error) = written() {
        let _ = std::fs::remove_dir_all(&new);
        return Err(error);
    }
    if let Some(lock) = &mut lock {
        lock.moved(out);
    }
    Ok(Merged { folder: out.to_owned(), blocks: (taken.len(), planned), left_out })
}

/// Refuses a folder that has anything in it.
fn refuse_full(out: &Path) -> Result<()> {
    if !out.exists() {
        return Ok(());
    }
    let mut entries =
        std::fs::read_dir(out).with_context(|| format!("cannot read {}", out.display()))?;
    if entries.next().is_some() {
        bail!("{} is not empty: name a new folder", out.display());
    }
    Ok(())
}

/// The manifest of the merged run, and its rows of `blocks.csv`.
fn join(
    plan: &Plan,
    parts: &[RunPart],
    taken: &BTreeMap<usize, TakenBlock<'_>>,
    blocks: (usize, usize),
    left_out: &[String],
) -> Result<(Manifest, Vec<BlockRow>)> {
    let mut manifest = Manifest::new(plan, blocks.1);
    manifest.blocks = blocks;
    let whole = blocks.0 == blocks.1;
    manifest.status = if whole { Status::Finished } else { Status::Interrupted };
    manifest.left_out = left_out.to_vec();
    let mut firsts = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        firsts.push(manifest.sessions.len());
        manifest.sessions.extend(part.sessions());
        let own = taken.values().filter(|standing| standing.part == number).count();
        if part.manifest.merged.is_empty() {
            let machines = part.sessions().filter_map(|session| session.host);
            let mut machines = machines.collect::<Vec<_>>();
            machines.dedup();
            let (folder, share) = (part.name(), part.manifest.share);
            manifest.merged.push(MergedPart { folder, share, machines, blocks: own });
        } else {
            manifest.merged.extend(part.manifest.merged.iter().cloned());
        }
    }
    let pooled = pooled(plan, &manifest.sessions);
    let row = |standing: &TakenBlock<'_>| {
        let session = firsts[standing.part] + standing.row.session;
        BlockRow { session: pooled[session], ..standing.row.clone() }.sealed()
    };
    let rows = taken.values().map(row).collect::<Result<_>>()?;
    Ok((manifest, rows))
}

/// The session under which the blocks of each session are listed: its own, or, where the times
/// are those of the virtual clock and so of no machine, the first one of the same build and
/// number of threads.
fn pooled(plan: &Plan, sessions: &[RunSession]) -> Vec<usize> {
    let own = 0..sessions.len();
    if plan.clock != "virtual" {
        return own.collect();
    }
    let same = |a: &RunSession, b: &RunSession| (&a.build, a.threads) == (&b.build, b.threads);
    own.map(|i| sessions.iter().position(|s| same(s, &sessions[i])).unwrap_or(i)).collect()
}
