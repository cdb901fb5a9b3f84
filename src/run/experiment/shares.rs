//! The folder that all processes of a divided run write their results folders into.
//!
//! Nothing here relies on locks between machines, which file systems over a network may not
//! have: a folder gets its name by a rename that only one process can win, and is continued
//! only on the machine that began it. Elsewhere a new folder is begun, and what stands in the
//! old one counts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::cell::Plan;
use super::folder::{ResultsFolder, fill, settle};
use super::lock::Lock;
use super::manifest::{Manifest, Status};
use super::provenance::utc_now;
use super::share::{Shard, Share};
use crate::measure::machine::{Machine, host};
use crate::measure::rows::{BlockRow, each_row};

/// The folder with the shards of a plan.
pub(crate) fn shards_folder(out: &Path, plan: &Plan) -> PathBuf {
    out.join(&plan.experiment).join(format!("shards-{}", plan.hash))
}

/// The results folders in a folder, by name.
pub(crate) fn results_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder);
    let entries = entries.with_context(|| format!("cannot read {}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    // A folder that is still being made has a hidden name.
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        !name.starts_with('.') && path.join("manifest.json").is_file()
    };
    let mut found = paths.filter(named).collect::<Vec<_>>();
    found.sort();
    Ok(found)
}

/// The folder with the shards of one run, for the process of one of them.
#[derive(Debug)]
pub(super) struct SharedPlace<'a> {
    path: PathBuf,
    plan: &'a Plan,
    shard: Shard,
}

impl<'a> SharedPlace<'a> {
    /// The place of a plan's shards, which is made if there is none.
    pub(super) fn new(out: &Path, plan: &'a Plan, shard: Shard) -> Result<Self> {
        let path = shards_folder(out, plan);
        let cannot = || format!("cannot make the results folder {}", path.display());
        fs::create_dir_all(&path).with_context(cannot)?;
        Ok(Self { path, plan, shard })
    }

    /// Makes a folder for this process.
    pub(super) fn create(&self, manifest: &Manifest) -> Result<ResultsFolder> {
        let cannot = |path: &Path| format!("cannot make the results folder {}", path.display());
        let (date, machine) = (&utc_now()[..10], Machine::this().slug());
        let Shard { index, of } = self.shard;
        let name = format!("{index}-of-{of}-{date}-{machine}");
        let (new, mut lock) = hidden_folder(&self.path)?;
        fill(&new, self.plan, manifest)?;
        let path = settle(&new, &self.path, &name).with_context(|| cannot(&self.path))?;
        if let Some(lock) = &mut lock {
            lock.moved(&path);
        }
        ResultsFolder::locked(path, lock)
    }

    /// The unfinished folder of the same shard that a process of this machine left behind.
    ///
    /// # Errors
    /// If a process still writes to it.
    pub(super) fn left_behind(&self) -> Result<Option<ResultsFolder>> {
        let share = Some(Share::Shard(self.shard));
        for path in results_in(&self.path)? {
            let Ok(manifest) = Manifest::read(&path) else { continue };
            let own = Some(host());
            let here = manifest.sessions.iter().all(|session| session.host == own);
            if manifest.share != share || manifest.status == Status::Finished || !here {
                continue;
            }
            let lock = Lock::take_if_able(&path)?;
            if lock.is_some() {
                return ResultsFolder::locked(path, lock).map(Some);
            }
        }
        Ok(None)
    }

    /// The blocks that are done in other folders than `own`. A folder that cannot be read
    /// has none: at worst, its blocks are run twice.
    pub(super) fn done_elsewhere(&self, own: Option<&Path>) -> Result<BTreeSet<usize>> {
        let mut done = BTreeSet::new();
        for path in results_in(&self.path)? {
            if own != Some(&*path) {
                let _ = each_row(&path, |row: BlockRow| {
                    if !row.superseded && row.is_sealed()? {
                        done.insert(row.block);
                    }
                    Ok(())
                });
            }
        }
        Ok(done)
    }
}

/// How the name of a folder begins that is still being made.
const HIDDEN: &str = ".new-";

/// How old such a folder of a killed process must be: another process may be about to lock its own.
const LEFT: Duration = Duration::from_secs(60);

/// Makes a folder with a hidden name, and removes those that killed processes of this machine have
/// left behind.
pub(super) fn hidden_folder(parent: &Path) -> Result<(PathBuf, Option<Lock>)> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for left in entries.filter(is_left_behind).map(|entry| entry.path()) {
        // Whoever is alive holds the lock.
        if let Ok(_lock) = Lock::take(&left) {
            let _ = fs::remove_dir_all(&left);
        }
    }
    let new = parent.join(format!("{HIDDEN}{}", unique()));
    let cannot = || format!("cannot make the folder {}", new.display());
    fs::create_dir(&new).with_context(cannot)?;
    let lock = Lock::take_if_able(&new)?;
    Ok((new, lock))
}

/// Whether a folder has been hidden for a while by a process of this machine.
fn is_left_behind(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy().into_owned();
    let own = name.strip_prefix(HIDDEN).and_then(|name| name.rsplitn(3, '-').nth(2));
    let found = entry.metadata().ok().filter(|found| found.is_dir() && own == Some(&safe(&host())));
    let age = found.and_then(|found| found.modified().ok()?.elapsed().ok());
    age.is_some_and(|age| age > LEFT)
}

/// A name that no other process on any machine has.
fn unique() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.as_nanos());
    format!("{}-{}-{nanos:x}", safe(&host()), std::process::id())
}

/// A name as a part of a file's name.
fn safe(name: &str) -> String {
    let part = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    name.chars().map(part).take(64).collect()
}
