//! A results folder: created, appended to block by block, repaired on resume.
//!
//! A block's rows are written together when the block is done, its row of `blocks.csv`
//! last: a block that is listed there has all its rows. Then the rows of a file that has become
//! long move to a segment. After a crash, the generations
//! and failures of an unlisted block stay in their files, marked `superseded`; its other
//! rows are dropped, because the whole block is timed again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use super::blocks::Places;
use super::cell::{FORMAT, OLDEST_FORMAT, Plan};
use super::headers::ensure_headers;
use super::keep::keep;
use super::lock::Lock;
use super::manifest::{Manifest, Status};
use super::pack::{mend, pack};
use super::provenance::utc_now;
use crate::io::input::read_text;
use crate::io::output::{PARTIAL, cannot_write, open_in_place, sync_folder, write_whole};
use crate::measure::machine::Machine;
use crate::measure::rows::{
    BlockDigest, BlockRow, BlockRows, GenerationRow, PositionRow, RAW_FILES, Raw, RawRow, RoundRow,
    compressed, each_row, segments, text_of,
};

/// The name of a folder while it is being made.
const NEW: &str = ".new";

/// A folder with a plan, a manifest and rows, and the right to write to it.
#[derive(Debug)]
pub(super) struct ResultsFolder {
    pub(super) path: PathBuf,
    /// The expected length of each raw file and segment in bytes.
    lengths: RefCell<BTreeMap<String, u64>>,
    /// Held until the folder is dropped; a shard on a file system that cannot lock has none.
    _lock: Option<Lock>,
}

impl ResultsFolder {
    /// Makes `<out>/<experiment>/<date>-<machine>` with the plan, the manifest and the
    /// headers; if the name is taken, `-2`, `-3` and so on are appended. The folder gets
    /// its name once it is complete, so a crash before that leaves no incomplete run.
    pub(super) fn create(out: &Path, plan: &Plan, manifest: &Manifest) -> Result<Self> {
        let parent = out.join(&plan.experiment);
        let cannot = |path: &Path| format!("cannot make the results folder {}", path.display());
        fs::create_dir_all(&parent).with_context(|| cannot(&parent))?;
        // Only one process at a time makes a folder here, so an existing one was left by
        // a crash.
        let _turn = Lock::wait(&parent)?;
        let new = parent.join(NEW);
        if new.exists() {
            fs::remove_dir_all(&new).with_context(|| cannot(&new))?;
        }
        fs::create_dir(&new).with_context(|| cannot(&new))?;
        let mut lock = Lock::take(&new)?;
        let name = format!("{}-{}", &utc_now()[..10], Machine::this().slug());
        fill(&new, plan, manifest)?;
        let path = settle(&new, &parent, &name).with_context(|| cannot(&parent))?;
        lock.moved(&path);
        Self::locked(path, Some(lock))
    }

    /// Opens the newest unfinished folder of the same plan.
    ///
    /// # Errors
    /// If there is none, or another process is writing to it.
    pub(super) fn newest_unfinished(out: &Path, plan: &Plan) -> Result<Self> {
        let parent = out.join(&plan.experiment);
        let folders = fs::read_dir(&parent).into_iter().flatten().flatten();
        let unfinished = |path: PathBuf| {
            let manifest = Manifest::read(&path).ok()?;
            let same = read_plan(&path).is_ok_and(|found| found.hash == plan.hash);
            let begun = manifest.sessions.first()?.started.clone();
            (same && manifest.status != Status::Finished).then_some((begun, path))
        };
        let paths = folders.map(|entry| entry.path()).filter(|path| !path.ends_with(NEW));
        match paths.filter_map(unfinished).max() {
            Some((_, path)) => Self::open(&path, plan),
            None => bail!(
                "nothing to resume: {} holds no unfinished run of this plan (hash {})",
                parent.display(),
                plan.hash
            ),
        }
    }

    /// Opens a given folder if it belongs to the same plan.
    ///
    /// # Errors
    /// If it holds another plan or none, has compressed rows, or another process is
    /// writing to it.
    pub(super) fn open(path: &Path, plan: &Plan) -> Result<Self> {
        let found = read_plan(path)?;
        if found.hash != plan.hash {
            bail!(
                "{} holds another plan (hash {}, not {}): its rows cannot be continued",
                path.display(),
                found.hash,
                plan.hash
            );
        }
        if let Some(name) = RAW_FILES.iter().find(|name| compressed(&path.join(name)).exists()) {
            bail!(
                "{} has {name}.gz, and compressed rows cannot be continued: decompress them first \
                 (gunzip)",
                path.display()
            );
        }
        if !segments::<GenerationRow>(path)?.is_empty() {
            bail!("{} is finished and packed: its rows cannot be continued", path.display());
        }
        Self::locked(path.to_owned(), Some(Lock::take(path)?))
    }

    /// The folder at a path that this process may write to.
    pub(super) fn locked(path: PathBuf, lock: Option<Lock>) -> Result<Self> {
        let folder = Self { path, lengths: RefCell::default(), _lock: lock };
        folder.measure()?;
        Ok(folder)
    }

    /// Appends the rows of a block, its row of `blocks.csv` last. Files that are then longer
    /// than `pack_above` bytes are packed, if they hold rounds or positions.
    ///
    /// # Errors
    /// Names the file that cannot be written (on a full disk, for example) or that
    /// something else changed since the last block.
    pub(super) fn append(&self, rows: &BlockRows, block: &BlockRow, pack_above: u64) -> Result<()> {
        self.check()?;
        self.append_rows(&rows.rounds)?;
        self.append_rows(&rows.positions)?;
        self.append_rows(&rows.texts)?;
        self.append_rows(&rows.traces)?;
        self.append_rows(&rows.failures)?;
        self.append_rows(&rows.divergences)?;
        self.append_rows(&rows.generations)?;
        self.append_rows(std::slice::from_ref(block))?;
        self.pack::<RoundRow>(pack_above)?;
        self.pack::<PositionRow>(pack_above)
    }

    fn pack<R: RawRow>(&self, above: u64) -> Result<()> {
        if self.lengths.borrow().get(R::FILE).is_none_or(|&length| length <= above) {
            return Ok(());
        }
        self.check_file(R::FILE)?;
        pack::<R>(&self.path)?;
        self.measure_file(R::FILE)?;
        self.measure_segments::<R>()
    }

    /// Refuses to continue if something else changed a raw file: rows would be lost
    /// silently.
    pub(super) fn check(&self) -> Result<()> {
        for name in self.lengths.borrow().keys() {
            self.check_file(name)?;
        }
        Ok(())
    }

    fn check_file(&self, name: &str) -> Result<()> {
        let Some(&length) = self.lengths.borrow().get(name) else { return Ok(()) };
        let file = self.path.join(name);
        let found = length_of(&file)?;
        if found != Some(length) {
            let found = found.map_or_else(|| "is gone".into(), |n| format!("has {n} bytes"));
            bail!(
                "{} {found}, but {length} bytes were written: something else changed it during the \
                 run; resume the run to repair it",
                file.display()
            );
        }
        Ok(())
    }

    /// Repairs what a crash left behind: cuts torn last lines and sets aside the rows of
    /// blocks that are unlisted or damaged. Returns the rows of `blocks.csv`; blocks that
    /// are not superseded are done.
    pub(super) fn repair(&self, plan: &Plan) -> Result<Vec<BlockRow>> {
        self.remove_partial()?;
        ensure_headers(&self.path)?;
        mend::<RoundRow>(&self.path)?;
        mend::<PositionRow>(&self.path)?;
        let places = Places::new(plan);
        // Rows of unknown blocks are ignored: if damage made them so, the block that
        // lacks them is run again.
        let raw = Raw::read(&self.path, places.lookup(), &mut ())?;
        let none = BlockDigest::default();
        let mut kept = BTreeSet::new();
        for (number, block) in raw.standing() {
            if block.fits(raw.found.get(&number).unwrap_or(&none))? {
                kept.insert(number);
            }
        }
        self.keep(&places, &kept)
    }

    /// Removes files that a crash left half written.
    fn remove_partial(&self) -> Result<()> {
        let entries = fs::read_dir(&self.path);
        let entries = entries.with_context(|| format!("cannot read {}", self.path.display()))?;
        let paths = entries.flatten().map(|entry| entry.path());
        let mut partial = paths.filter(|path| path.extension().is_some_and(|end| end == PARTIAL));
        partial.try_for_each(|path| {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
        })
    }

    /// Marks one block as superseded, so that a repetition can replace it.
    pub(super) fn set_aside(&self, plan: &Plan, block: usize) -> Result<()> {
        self.check()?;
        let mut kept = BTreeSet::new();
        each_row(&self.path, |row: BlockRow| {
            kept.extend((!row.superseded && row.block != block).then_some(row.block));
            Ok(())
        })?;
        self.keep(&Places::new(plan), &kept)?;
        Ok(())
    }

    fn keep(&self, places: &Places<'_>, kept: &BTreeSet<usize>) -> Result<Vec<BlockRow>> {
        let blocks = keep(&self.path, places, kept)?;
        self.measure()?;
        Ok(blocks)
    }

    /// Records the current lengths of the files as the expected ones.
    fn measure(&self) -> Result<()> {
        self.lengths.borrow_mut().clear();
        for name in RAW_FILES {
            self.measure_file(name)?;
        }
        self.measure_segments::<RoundRow>()?;
        self.measure_segments::<PositionRow>()
    }

    /// Records the lengths of new segments; those of the others are known.
    fn measure_segments<R: RawRow>(&self) -> Result<()> {
        let segments = segments::<R>(&self.path)?;
        let known = self.lengths.borrow().clone();
        let names = segments.iter().filter_map(|segment| segment.file_name()?.to_str());
        let names = names.filter(|name| !known.contains_key(*name));
        for name in names {
            self.measure_file(name)?;
        }
        Ok(())
    }

    fn measure_file(&self, name: &str) -> Result<()> {
        let length = length_of(&self.path.join(name))?;
        let mut lengths = self.lengths.borrow_mut();
        match length {
            Some(length) => lengths.insert(name.to_owned(), length),
            None => lengths.remove(name),
        };
        Ok(())
    }

    fn append_rows<R: RawRow>(&self, rows: &[R]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let before = self.lengths.borrow().get(R::FILE).copied();
        let bytes = text_of(rows, before.is_none())?;
        // Checked again, because writing the files before this one may have taken a
        // while.
        self.check_file(R::FILE)?;
        let file = self.path.join(R::FILE);
        let write = || -> io::Result<()> {
            let mut out = open_in_place(OpenOptions::new().create(true).append(true), &file)?;
            out.write_all(&bytes)?;
            out.sync_data()
        };
        write().with_context(|| cannot_write(&file))?;
        let length = before.unwrap_or(0) + bytes.len() as u64;
        self.lengths.borrow_mut().insert(R::FILE.to_owned(), length);
        if before.is_none() {
            sync_folder(&self.path).with_context(|| cannot_write(&self.path))?;
        }
        Ok(())
    }
}

/// Writes what a new folder has: plan, manifest and headers.
pub(super) fn fill(new: &Path, plan: &Plan, manifest: &Manifest) -> Result<()> {
    write_whole(&new.join("plan.toml"), toml::to_string(plan)?.as_bytes())?;
    manifest.write(new)?;
    ensure_headers(new)
}

/// Gives a complete folder its final name and returns its path. If the name is taken, `-2`,
/// `-3` and so on are appended: no folder with files is ever replaced, so of several
/// processes that want a name, one gets it.
pub(super) fn settle(new: &Path, parent: &Path, name: &str) -> io::Result<PathBuf> {
    let mut path = parent.join(name);
    let mut number = 2;
    loop {
        match fs::rename(new, &path) {
            Ok(()) => break,
            Err(_) if path.exists() => {}
            Err(error) => return Err(error),
        }
        path = parent.join(format!("{name}-{number}"));
        number += 1;
    }
    sync_folder(parent)?;
    Ok(path)
}

fn length_of(file: &Path) -> Result<Option<u64>> {
    match fs::metadata(file) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Reads the plan of a results folder.
///
/// # Errors
/// Names the file if it is missing or damaged, or has rows of another format.
pub fn read_plan(folder: &Path) -> Result<Plan> {
    let file = folder.join("plan.toml");
    let text = read_text(&file).context("cannot read the plan")?;
    let table: toml::Table =
        text.parse().map_err(|_| anyhow!("{} is damaged: it is not TOML", file.display()))?;
    let format = table.get("format").and_then(toml::Value::as_integer).unwrap_or(1);
    if !(i64::from(OLDEST_FORMAT)..=i64::from(FORMAT)).contains(&format) {
        bail!(
            "{} has rows of format {format}, but this version of specdec reads formats \
             {OLDEST_FORMAT} to {FORMAT}: use the version that made them",
            folder.display()
        );
    }
    let damaged = || format!("{} is damaged", file.display());
    let plan: Plan = toml::from_str(&text).with_context(damaged)?;
    plan.check_values().and_then(|()| plan.check()).with_context(damaged)?;
    if !plan.is_sealed_in(&text) {
        bail!("{} is damaged: its contents do not have the hash {}", file.display(), plan.hash);
    }
    Ok(plan)
}
