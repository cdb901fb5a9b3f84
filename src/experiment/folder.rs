//! A results folder: created, appended to block by block, repaired on resume.
//!
//! A block's rows are written together when the block is done, its row of `blocks.csv`
//! last: a block that is listed there has all its rows. After a crash, the generations
//! and failures of an unlisted block stay in their files, marked `superseded`; its other
//! rows are dropped, because the whole block is timed again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::blocks::Places;
use super::cell::{FORMAT, Plan};
use super::files::{sync_folder, write_whole};
use super::lock::Lock;
use super::manifest::{Manifest, Status};
use super::provenance::utc_now;
use crate::machine::Machine;
use crate::rows::{
    BlockRow, BlockRows, DivergenceRow, FailureRow, GenerationRow, PositionRow, RAW_FILES, Raw,
    RoundRow, columns, compressed, csv_bytes, text_lines,
};

/// The name of a folder while it is being made.
const NEW: &str = ".new";

/// A folder with a plan, a manifest and rows, and the right to write to it.
#[derive(Debug)]
pub(super) struct ResultsFolder {
    path: PathBuf,
    /// The expected length of each raw file in bytes.
    lengths: RefCell<BTreeMap<&'static str, u64>>,
    /// Held until the folder is dropped.
    _lock: Lock,
}

impl ResultsFolder {
    /// Makes `<out>/<experiment>/<date>-<machine>` with the plan, the manifest and the
    /// headers; if the name is taken, `-2`, `-3` and so on are appended. The folder gets
    /// its name once it is complete, so a crash before that leaves no incomplete run.
    ///
    /// # Errors
    /// Names the folder if it cannot be made or written to.
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
        write_whole(&new.join("plan.toml"), toml::to_string(plan)?.as_bytes())?;
        manifest.write(&new)?;
        ensure_headers(&new)?;
        let path = settle(&new, &parent).with_context(|| cannot(&parent))?;
        lock.moved(&path);
        Self::locked(path, lock)
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
        Self::locked(path.to_owned(), Lock::take(path)?)
    }

    fn locked(path: PathBuf, lock: Lock) -> Result<Self> {
        let folder = Self { path, lengths: RefCell::default(), _lock: lock };
        folder.measure()?;
        Ok(folder)
    }

    /// The path of the folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the rows of a block, its row of `blocks.csv` last.
    ///
    /// # Errors
    /// Names the file that cannot be written (on a full disk, for example) or that
    /// something else changed since the last block.
    pub(super) fn append(&self, rows: &BlockRows, block: &BlockRow) -> Result<()> {
        self.check()?;
        self.append_csv("rounds.csv", &rows.rounds)?;
        self.append_csv("positions.csv", &rows.positions)?;
        self.append_bytes("generations.jsonl", &text_lines(&rows.texts)?)?;
        self.append_csv("failures.csv", &rows.failures)?;
        self.append_csv("divergences.csv", &rows.divergences)?;
        self.append_csv("generations.csv", &rows.generations)?;
        self.append_csv("blocks.csv", std::slice::from_ref(block))
    }

    /// Refuses to continue if something else changed a raw file: rows would be lost
    /// silently.
    ///
    /// # Errors
    /// Names the file.
    pub(super) fn check(&self) -> Result<()> {
        self.lengths.borrow().keys().try_for_each(|name| self.check_file(name))
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
    ///
    /// # Errors
    /// Names the file that cannot be read or written.
    pub(super) fn repair(&self, plan: &Plan) -> Result<Vec<BlockRow>> {
        ensure_headers(&self.path)?;
        let raw = Raw::read(&self.path)?;
        let places = Places::new(plan);
        // Rows of unknown blocks are ignored: if damage made them so, the block that
        // lacks them is run again.
        let (rows, _) = raw.by_block(places.lookup());
        let none = BlockRows::default();
        let mut kept = BTreeSet::new();
        for (number, block) in raw.standing() {
            if block.fits(rows.get(&number).unwrap_or(&none))? {
                kept.insert(number);
            }
        }
        self.keep(raw, &places, &kept)
    }

    /// Marks one block as superseded, so that a repetition can replace it.
    ///
    /// # Errors
    /// As [`Self::repair`].
    pub(super) fn set_aside(&self, plan: &Plan, block: usize) -> Result<()> {
        self.check()?;
        let raw = Raw::read(&self.path)?;
        let mut kept = raw.standing().into_keys().collect::<BTreeSet<_>>();
        kept.remove(&block);
        self.keep(raw, &Places::new(plan), &kept)?;
        Ok(())
    }

    /// Keeps the rows of the `kept` blocks. Of the others, the generations, failures and
    /// rows of `blocks.csv` stay, marked as superseded. `blocks.csv` is written first: a
    /// crash after that leaves rows of unlisted blocks, which the next repair sets aside.
    /// Each file is replaced whole, and doing this twice changes nothing.
    fn keep(
        &self,
        mut raw: Raw,
        places: &Places<'_>,
        kept: &BTreeSet<usize>,
    ) -> Result<Vec<BlockRow>> {
        let keep = |cell: &str, prompt: &str, repeat| {
            places.block(cell, prompt, repeat).is_some_and(|block| kept.contains(&block))
        };
        raw.blocks.iter_mut().for_each(|b| b.superseded |= !kept.contains(&b.block));
        raw.rounds.retain(|r| keep(&r.cell, &r.prompt, r.repeat));
        raw.positions.retain(|r| keep(&r.cell, &r.prompt, r.repeat));
        raw.texts.retain(|r| keep(&r.cell, &r.prompt, r.repeat));
        raw.divergences.retain(|r| keep(&r.cell, &r.prompt, r.repeat));
        for f in &mut raw.failures {
            f.superseded |= !keep(&f.cell, &f.prompt, f.repeat);
        }
        for g in &mut raw.generations {
            g.superseded |= !keep(&g.cell, &g.prompt, g.repeat);
        }
        self.replace("blocks.csv", &csv_bytes(&raw.blocks, true)?)?;
        self.replace("rounds.csv", &csv_bytes(&raw.rounds, true)?)?;
        self.replace("positions.csv", &csv_bytes(&raw.positions, true)?)?;
        self.replace("generations.jsonl", &text_lines(&raw.texts)?)?;
        self.replace("divergences.csv", &csv_bytes(&raw.divergences, true)?)?;
        self.replace("failures.csv", &csv_bytes(&raw.failures, true)?)?;
        self.replace("generations.csv", &csv_bytes(&raw.generations, true)?)?;
        self.measure()?;
        Ok(raw.blocks)
    }

    /// Records the current lengths of the files as the expected ones.
    fn measure(&self) -> Result<()> {
        let lengths = RAW_FILES
            .iter()
            .map(|&name| Ok(length_of(&self.path.join(name))?.map(|length| (name, length))));
        *self.lengths.borrow_mut() =
            lengths.filter_map(Result::transpose).collect::<Result<_>>()?;
        Ok(())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let file = self.path.join(name);
        if file.exists() { write_whole(&file, bytes) } else { Ok(()) }
    }

    fn append_csv<R>(&self, name: &'static str, rows: &[R]) -> Result<()>
    where
        R: Serialize + DeserializeOwned,
    {
        if rows.is_empty() {
            return Ok(());
        }
        let new = !self.lengths.borrow().contains_key(name);
        self.append_bytes(name, &csv_bytes(rows, new)?)
    }

    fn append_bytes(&self, name: &'static str, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // Checked again, because writing the files before this one may have taken a
        // while.
        self.check_file(name)?;
        let file = self.path.join(name);
        let write = || -> io::Result<()> {
            let mut out = OpenOptions::new().create(true).append(true).open(&file)?;
            out.write_all(bytes)?;
            out.sync_data()
        };
        write().with_context(|| format!("cannot write {}", file.display()))?;
        let before = self.lengths.borrow().get(name).copied();
        let length = before.unwrap_or(0) + bytes.len() as u64;
        self.lengths.borrow_mut().insert(name, length);
        if before.is_none() {
            let synced = sync_folder(&self.path);
            synced.with_context(|| format!("cannot write {}", self.path.display()))?;
        }
        Ok(())
    }
}

/// Makes sure that the files have headers. A file that every run has is created if it is
/// missing, even if nothing finishes. A file that ends within its header gets the whole
/// header. A file that begins with a row, because it was emptied while its next rows were
/// being written, gets the header in front. A file that begins in any other way is left
/// to its reader.
fn ensure_headers(folder: &Path) -> Result<()> {
    ensure_header::<RoundRow>(&folder.join("rounds.csv"), true)?;
    ensure_header::<GenerationRow>(&folder.join("generations.csv"), true)?;
    ensure_header::<BlockRow>(&folder.join("blocks.csv"), true)?;
    ensure_header::<PositionRow>(&folder.join("positions.csv"), false)?;
    ensure_header::<FailureRow>(&folder.join("failures.csv"), false)?;
    ensure_header::<DivergenceRow>(&folder.join("divergences.csv"), false)
}

fn ensure_header<R: Serialize + DeserializeOwned>(file: &Path, needed: bool) -> Result<()> {
    let cannot = || format!("cannot read {}", file.display());
    let mut first = Vec::new();
    match File::open(file) {
        Ok(opened) => BufReader::new(opened).read_until(b'\n', &mut first).map(drop),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !needed => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
    .with_context(cannot)?;
    let header = csv_bytes::<R>(&[], true)?;
    if header.starts_with(&first) {
        return if first.len() < header.len() { write_whole(file, &header) } else { Ok(()) };
    }
    // A row may contain a column's name, for example as a prompt's id, but not most of
    // them: this line is a header with other columns.
    let first = String::from_utf8_lossy(&first);
    let fields = first.split(',').map(|field| field.trim().trim_matches('"'));
    let named = fields.filter(|field| columns::<R>().contains(field)).count();
    if named * 2 > columns::<R>().len() {
        return Ok(());
    }
    write_whole(file, &[header, fs::read(file).with_context(cannot)?].concat())
}

/// Gives a complete folder its final name and returns its path.
fn settle(new: &Path, parent: &Path) -> io::Result<PathBuf> {
    let name = format!("{}-{}", &utc_now()[..10], Machine::this().slug());
    let mut path = parent.join(&name);
    let mut number = 2;
    while path.exists() {
        path = parent.join(format!("{name}-{number}"));
        number += 1;
    }
    fs::rename(new, &path)?;
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
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let table: toml::Table =
        text.parse().map_err(|_| anyhow!("{} is damaged: it is not TOML", file.display()))?;
    let format = table.get("format").and_then(toml::Value::as_integer).unwrap_or(1);
    if format != i64::from(FORMAT) {
        bail!(
            "{} has rows of format {format}, but this version of specdec reads and writes format \
             {FORMAT}: use the version that made them",
            folder.display()
        );
    }
    let damaged = || format!("{} is damaged", file.display());
    let plan: Plan = toml::from_str(&text).with_context(damaged)?;
    plan.check().with_context(damaged)?;
    if !plan.is_sealed_in(&text) {
        bail!("{} is damaged: its contents do not have the hash {}", file.display(), plan.hash);
    }
    Ok(plan)
}
