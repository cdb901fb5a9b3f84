//! A results folder: created, appended to block by block, repaired on resume.
//!
//! A block's rows are written together when the block is done: rounds and texts
//! first, `generations.csv` last, so that a generation that is listed there has
//! all its rows. After a crash, generations of an unfinished block stay in
//! `generations.csv`, marked `superseded`; their rounds and texts are dropped,
//! since the block is timed again whole.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cell::Plan;
use super::columns::columns;
use super::machine::Machine;
use super::manifest::{Manifest, Status, utc_now};
use super::records::{DivergenceRow, FailureRow, GenerationRow, PositionRow, RoundRow, TextRow};

/// Everything one block adds.
#[derive(Debug, Default)]
pub(super) struct BlockRows {
    /// To `rounds.csv`.
    pub rounds: Vec<RoundRow>,
    /// To `positions.csv`.
    pub positions: Vec<PositionRow>,
    /// To `generations.jsonl`.
    pub texts: Vec<TextRow>,
    /// To `failures.csv`.
    pub failures: Vec<FailureRow>,
    /// To `divergences.csv`.
    pub divergences: Vec<DivergenceRow>,
    /// To `generations.csv`.
    pub generations: Vec<GenerationRow>,
}

/// What identifies a generation: cell, prompt, repeat.
pub(super) type GenerationKey = (String, String, u32);

/// A folder with a plan, a manifest and rows.
#[derive(Debug)]
pub(super) struct ResultsFolder {
    path: PathBuf,
}

impl ResultsFolder {
    /// Makes `<out>/<experiment>/<date>-<machine>` and writes the plan; if the
    /// name is taken, `-2`, `-3` and so on are appended.
    ///
    /// # Errors
    /// Names the folder if it cannot be made or written to.
    pub(super) fn create(out: &Path, plan: &Plan, manifest: &Manifest) -> Result<Self> {
        let parent = out.join(&plan.experiment);
        fs::create_dir_all(&parent)
            .with_context(|| format!("cannot make the results folder {}", parent.display()))?;
        let name = format!("{}-{}", &utc_now()[..10], Machine::this().slug());
        let mut path = parent.join(&name);
        let mut number = 2;
        while let Err(error) = fs::create_dir(&path) {
            if error.kind() != std::io::ErrorKind::AlreadyExists {
                return Err(error)
                    .with_context(|| format!("cannot make the results folder {}", path.display()));
            }
            path = parent.join(format!("{name}-{number}"));
            number += 1;
        }
        write_whole(&path.join("plan.toml"), toml::to_string(plan)?.as_bytes())?;
        manifest.write(&path)?;
        let folder = Self { path };
        // A run in which nothing finishes has these files, too.
        folder.append_bytes("rounds.csv", &csv_bytes::<RoundRow>(&[], true)?)?;
        folder.append_bytes("generations.csv", &csv_bytes::<GenerationRow>(&[], true)?)?;
        Ok(folder)
    }

    /// The newest unfinished folder of the same plan.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn newest_unfinished(out: &Path, plan: &Plan) -> Result<Self> {
        let parent = out.join(&plan.experiment);
        let mut candidates = fs::read_dir(&parent)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                let unfinished = Manifest::read(path).is_ok_and(|m| m.status != Status::Finished);
                unfinished && read_plan(path).is_ok_and(|p| p.hash == plan.hash)
            })
            .collect::<Vec<_>>();
        let age =
            |path: &PathBuf| fs::metadata(path.join("plan.toml")).and_then(|m| m.modified()).ok();
        candidates.sort_by_key(age);
        match candidates.pop() {
            Some(path) => Ok(Self { path }),
            None => bail!(
                "nothing to resume: {} holds no unfinished run of this plan (hash {})",
                parent.display(),
                plan.hash
            ),
        }
    }

    /// A given folder, if it belongs to the same plan.
    ///
    /// # Errors
    /// If it holds another plan or none.
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
        Ok(Self { path: path.to_owned() })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the rows of a block, the listing of its generations last.
    ///
    /// # Errors
    /// Names the file that cannot be written (a full disk, say).
    pub(super) fn append(&self, rows: &BlockRows) -> Result<()> {
        self.append_csv("rounds.csv", &rows.rounds)?;
        self.append_csv("positions.csv", &rows.positions)?;
        self.append_bytes("generations.jsonl", text_lines(&rows.texts)?.as_bytes())?;
        self.append_csv("failures.csv", &rows.failures)?;
        self.append_csv("divergences.csv", &rows.divergences)?;
        self.append_csv("generations.csv", &rows.generations)
    }

    /// Repairs what a crash left behind: cuts torn last lines, marks the
    /// generations of unfinished blocks and drops their other rows. `finished`
    /// tells whether all cells of a generation's block are listed. Returns the
    /// generations that are done.
    ///
    /// # Errors
    /// Names the file that cannot be read or written.
    pub(super) fn repair(
        &self,
        finished: impl Fn(&GenerationKey, &HashSet<GenerationKey>) -> bool,
    ) -> Result<HashSet<GenerationKey>> {
        let mut generations: Vec<GenerationRow> = self.read_csv("generations.csv")?;
        let mut failures: Vec<FailureRow> = self.read_csv("failures.csv")?;
        let listed = generations
            .iter()
            .filter(|g| !g.superseded)
            .map(|g| (g.cell.clone(), g.prompt.clone(), g.repeat))
            .chain(failures.iter().filter(|f| !f.superseded).map(failure_key))
            .collect::<HashSet<_>>();
        let done =
            listed.iter().filter(|key| finished(key, &listed)).cloned().collect::<HashSet<_>>();
        for g in &mut generations {
            g.superseded |= !done.contains(&(g.cell.clone(), g.prompt.clone(), g.repeat));
        }
        for f in &mut failures {
            f.superseded |= !done.contains(&failure_key(f));
        }
        let keep = |cell: &str, prompt: &str, repeat| {
            done.contains(&(cell.to_owned(), prompt.to_owned(), repeat))
        };
        let mut rounds: Vec<RoundRow> = self.read_csv("rounds.csv")?;
        rounds.retain(|r| keep(&r.cell, &r.prompt, r.repeat));
        let mut positions: Vec<PositionRow> = self.read_csv("positions.csv")?;
        positions.retain(|r| keep(&r.cell, &r.prompt, r.repeat));
        let mut divergences: Vec<DivergenceRow> = self.read_csv("divergences.csv")?;
        divergences.retain(|r| keep(&r.cell, &r.prompt, r.repeat));
        let mut texts = self.read_texts()?;
        texts.retain(|r| keep(&r.cell, &r.prompt, r.repeat));
        // Each file is replaced whole, and repairing twice changes nothing, so
        // a crash during the repair loses nothing either.
        self.replace("rounds.csv", &csv_bytes(&rounds, true)?)?;
        self.replace("positions.csv", &csv_bytes(&positions, true)?)?;
        self.replace("generations.jsonl", text_lines(&texts)?.as_bytes())?;
        self.replace("divergences.csv", &csv_bytes(&divergences, true)?)?;
        self.replace("failures.csv", &csv_bytes(&failures, true)?)?;
        self.replace("generations.csv", &csv_bytes(&generations, true)?)?;
        Ok(done)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let file = self.path.join(name);
        if file.exists() { write_whole(&file, bytes) } else { Ok(()) }
    }

    fn append_csv<R>(&self, name: &str, rows: &[R]) -> Result<()>
    where
        R: Serialize + DeserializeOwned,
    {
        if rows.is_empty() {
            return Ok(());
        }
        let new = fs::metadata(self.path.join(name)).map_or(true, |m| m.len() == 0);
        self.append_bytes(name, &csv_bytes(rows, new)?)
    }

    fn append_bytes(&self, name: &str, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let file = self.path.join(name);
        let write = || -> std::io::Result<()> {
            let mut out = OpenOptions::new().create(true).append(true).open(&file)?;
            out.write_all(bytes)?;
            out.sync_data()
        };
        write().with_context(|| format!("cannot write {}", file.display()))
    }

    /// The complete rows of a file; none if it does not exist. A last line
    /// without an end is what a crash leaves of a row, and is no row.
    fn read_csv<R: DeserializeOwned>(&self, name: &str) -> Result<Vec<R>> {
        let file = self.path.join(name);
        let text = self.read_lines(name)?;
        csv::Reader::from_reader(text.as_bytes())
            .deserialize()
            .collect::<Result<Vec<R>, _>>()
            .with_context(|| format!("{} is damaged", file.display()))
    }

    fn read_texts(&self) -> Result<Vec<TextRow>> {
        let name = "generations.jsonl";
        let damaged = |line: usize| format!("{}, line {line}", self.path.join(name).display());
        let text = self.read_lines(name)?;
        let rows = text.lines().enumerate().map(|(i, line)| {
            serde_json::from_str(line).with_context(|| damaged(i + 1) + " is damaged")
        });
        rows.collect()
    }

    fn read_lines(&self, name: &str) -> Result<String> {
        let file = self.path.join(name);
        if !file.exists() {
            return Ok(String::new());
        }
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let complete = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        Ok(String::from_utf8_lossy(&bytes[..complete]).into_owned())
    }
}

/// The rows, with their header if `headers`, even where there is no row.
fn csv_bytes<R>(rows: &[R], headers: bool) -> Result<Vec<u8>>
where
    R: Serialize + DeserializeOwned,
{
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    if headers {
        writer.write_record(columns::<R>())?;
    }
    for row in rows {
        writer.serialize(row)?;
    }
    Ok(writer.into_inner()?)
}

fn text_lines(rows: &[TextRow]) -> Result<String> {
    rows.iter().map(|row| Ok(serde_json::to_string(row)? + "\n")).collect()
}

fn failure_key(row: &FailureRow) -> GenerationKey {
    (row.cell.clone(), row.prompt.clone(), row.repeat)
}

/// Reads the plan of a results folder.
///
/// # Errors
/// Names the file if it is missing or damaged.
pub fn read_plan(folder: &Path) -> Result<Plan> {
    let file = folder.join("plan.toml");
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is damaged", file.display()))
}

/// Writes a file whole or not at all: under another name first, then renamed.
///
/// # Errors
/// Names the file if it cannot be written.
pub fn write_whole(file: &Path, bytes: &[u8]) -> Result<()> {
    let partial = file.with_extension("partial");
    let write = || -> std::io::Result<()> {
        let mut out = File::create(&partial)?;
        out.write_all(bytes)?;
        out.sync_data()?;
        fs::rename(&partial, file)
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}
