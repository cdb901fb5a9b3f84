//! `manifest.json`: where and when a run happened, with what, and how it ended.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cell::{Plan, PlannedModel, short_hash};
use super::provenance::{Build, utc_now};
use super::share::Share;
use crate::io::input::read_text;
use crate::io::output::write_whole;
use crate::measure::machine::{Machine, load_average};
use crate::measure::rows::{Calibration, Recalibration};

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is running, or was killed.
    Running,
    /// It was interrupted and can be resumed.
    Interrupted,
    /// All blocks are done, but the run is not yet reported.
    Measured,
    /// All blocks are done and reported.
    Finished,
}

/// The manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The models.
    pub models: Vec<PlannedModel>,
    /// SHA-256 over the prompts.
    pub prompts_sha256: String,
    /// The state of the run.
    pub status: Status,
    /// Number of finished blocks and number of planned blocks.
    pub blocks: (usize, usize),
    /// The processes that wrote to the run, in order.
    pub sessions: Vec<RunSession>,
    /// Which part of the plan's blocks the folder holds, if not all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// The folders that the run was merged from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedPart>,
    /// What merging left out, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A folder that a run was merged from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedPart {
    /// The name of the folder.
    pub folder: String,
    /// Which part of the plan's blocks it was to hold, if not all of them.
    pub share: Option<Share>,
    /// The names of the machines that wrote to it.
    pub machines: Vec<String>,
    /// How many blocks are from it.
    pub blocks: usize,
}

/// One process's part in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSession {
    /// The build.
    #[serde(flatten)]
    pub build: Build,
    /// The machine.
    #[serde(flatten)]
    pub machine: Machine,
    /// The name of the machine, where several may take part in a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Worker threads.
    pub threads: usize,
    /// The command as it was given.
    pub command_line: Vec<String>,
    /// Load averages at the start.
    pub load_average: [f64; 3],
    /// Time that was lost before the first block, as a share of wall time.
    pub lost_before: f64,
    /// The same during its blocks.
    pub lost_share: f64,
    /// Costs measured before its first block.
    pub calibration: Calibration,
    /// Target passes timed again between its blocks. Empty in runs of older versions and in short
    /// ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recalibrations: Vec<Recalibration>,
    /// UTC start, RFC 3339.
    pub started: String,
    /// UTC end; none if it was killed or failed.
    pub ended: Option<String>,
}

impl RunSession {
    /// The session of this process, which begins now.
    pub(super) fn begin(threads: usize) -> Self {
        Self {
            build: Build::this(),
            machine: Machine::this(),
            host: None,
            threads,
            command_line: command_line(),
            load_average: load_average(),
            lost_before: 0.0,
            lost_share: 0.0,
            calibration: Calibration::default(),
            recalibrations: Vec::new(),
            started: utc_now(),
            ended: None,
        }
    }

    /// The costs of the calibration, with passes as they were timed during the sweep.
    pub fn costs(&self) -> Calibration {
        self.calibration.during(&self.recalibrations)
    }
}

impl Manifest {
    /// The manifest of a run that no session has written to.
    pub(super) fn new(plan: &Plan, blocks: usize) -> Self {
        let models = [Some(&plan.target), plan.draft.as_ref()];
        Self {
            models: models.into_iter().flatten().cloned().collect(),
            prompts_sha256: plan.prompts_sha256.clone(),
            status: Status::Running,
            blocks: (0, blocks),
            sessions: Vec::new(),
            share: None,
            merged: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Reads the manifest of a results folder.
    ///
    /// # Errors
    /// Names the file if it is missing or damaged.
    pub fn read(folder: &Path) -> Result<Self> {
        let file = folder.join("manifest.json");
        let text = read_text(&file).context("cannot read the manifest")?;
        let damaged = || format!("{} is damaged", file.display());
        let mut value = serde_json::from_str::<Value>(&text).with_context(damaged)?;
        // Version 0.2 wrote none.
        let hash = value.as_object_mut().and_then(|manifest| manifest.remove(HASH));
        if let Some(hash) = hash.filter(|hash| *hash != hash_of(&value)) {
            bail!("{}: its contents do not have the hash {hash}", damaged());
        }
        serde_json::from_value(value).with_context(damaged)
    }

    /// Writes the manifest, whole or not at all.
    ///
    /// # Errors
    /// Names the file if it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut value = serde_json::to_value(self)?;
        value[HASH] = hash_of(&value);
        let text = serde_json::to_string_pretty(&value)? + "\n";
        write_whole(&folder.join("manifest.json"), text.as_bytes())
    }

    /// For each session, the index of the first session with comparable times: they have the same
    /// build, machine and number of threads.
    pub fn groups(&self) -> Vec<usize> {
        let same = |a: &RunSession, b: &RunSession| {
            (&a.build, &a.machine, &a.host, a.threads) == (&b.build, &b.machine, &b.host, b.threads)
        };
        let first = |own: &RunSession| self.sessions.iter().position(|s| same(s, own));
        self.sessions.iter().filter_map(first).collect()
    }
}

/// The key with the hash of all others.
const HASH: &str = "hash";

fn hash_of(manifest: &Value) -> Value {
    short_hash(&manifest.to_string()).into()
}

/// The command line, with the program by its name: where it lies says something about a user
/// and nothing about a run.
fn command_line() -> Vec<String> {
    let mut args = std::env::args_os();
    let program = args.next().map(PathBuf::from);
    let program = program.and_then(|path| path.file_name().map(OsString::from));
    program.into_iter().chain(args).map(|arg| arg.to_string_lossy().into_owned()).collect()
}

/// Marks a measured run as finished, once everything made from its rows is written.
///
/// # Errors
/// Names the manifest if it cannot be read or written.
pub fn finish(folder: &Path) -> Result<()> {
    let mut manifest = Manifest::read(folder)?;
    if manifest.status == Status::Measured {
        manifest.status = Status::Finished;
        manifest.write(folder)?;
    }
    Ok(())
}
