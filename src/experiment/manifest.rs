//! `manifest.json`: where and when a run happened, with what, and how it ended.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::cell::{Calibration, Plan, PlannedModel};
use super::machine::{Machine, load_average};

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is running, or was killed.
    Running,
    /// It was told to stop and can be resumed.
    Interrupted,
    /// All blocks are done.
    Finished,
}

/// The manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of specdec.
    pub specdec: String,
    /// Commit of the working folder's repository, or `unknown`.
    pub git_commit: String,
    /// Whether that repository had uncommitted changes.
    pub git_dirty: bool,
    /// The command as it was given.
    pub command_line: Vec<String>,
    /// The compiler.
    pub rustc: String,
    /// Libraries that can change results, as `name=version`.
    #[serde(default)]
    pub libraries: Vec<String>,
    /// Enabled features of the crate.
    pub features: Vec<String>,
    /// The machine.
    #[serde(flatten)]
    pub machine: Machine,
    /// Worker threads.
    pub threads: usize,
    /// Load averages at the start.
    pub load_average: [f64; 3],
    /// Waiting of our threads for a core during the blocks, by wall time; the
    /// largest share of all sessions.
    pub run_queue_delay_share: f64,
    /// The models.
    pub models: Vec<PlannedModel>,
    /// SHA-256 over the prompts.
    pub prompts_sha256: String,
    /// Costs measured before the sweep.
    pub calibration: Calibration,
    /// How far the run came.
    pub status: Status,
    /// Blocks finished of blocks planned.
    pub blocks: (usize, usize),
    /// How often the run was resumed.
    pub resumed: u32,
    /// UTC start, RFC 3339.
    pub started: String,
    /// UTC end of the last session.
    pub finished: Option<String>,
}

impl Manifest {
    /// The manifest of a run that begins now.
    pub fn begin(plan: &Plan, calibration: Calibration, blocks: usize) -> Self {
        let (git_commit, git_dirty) = git();
        Self {
            specdec: env!("CARGO_PKG_VERSION").to_owned(),
            git_commit,
            git_dirty,
            command_line: std::env::args().collect(),
            rustc: env!("SPECDEC_RUSTC").to_owned(),
            libraries: env!("SPECDEC_VERSIONS").split(' ').map(str::to_owned).collect(),
            features: features().map(str::to_owned).collect(),
            machine: Machine::this(),
            threads: plan.threads,
            load_average: load_average(),
            run_queue_delay_share: 0.0,
            models: [Some(&plan.target), plan.draft.as_ref()]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            prompts_sha256: plan.prompts_sha256.clone(),
            calibration,
            status: Status::Running,
            blocks: (0, blocks),
            resumed: 0,
            started: utc_now(),
            finished: None,
        }
    }

    /// Reads the manifest of a results folder.
    ///
    /// # Errors
    /// Names the file if it is missing or damaged.
    pub fn read(folder: &Path) -> Result<Self> {
        let file = folder.join("manifest.json");
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", file.display()))
    }

    /// The manifest of a run in `folder` that is continued now.
    ///
    /// # Errors
    /// If there is nothing to continue, or other code or another processor would
    /// time what is left.
    pub(super) fn resume(self, folder: &Path) -> Result<Self> {
        let folder = folder.display();
        if self.status == Status::Finished {
            bail!("{folder} is finished: there is nothing to resume");
        }
        let (git_commit, git_dirty) = git();
        for (what, old, new) in [
            ("commit", &self.git_commit, &git_commit),
            ("processor", &self.machine.cpu_model, &Machine::this().cpu_model),
        ] {
            if old != new {
                bail!("{folder} was begun with {what} {old}, not {new}: it cannot be continued");
            }
        }
        Ok(Self {
            git_dirty: self.git_dirty || git_dirty,
            load_average: load_average(),
            status: Status::Running,
            resumed: self.resumed + 1,
            ..self
        })
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// Names the file if it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        super::folder::write_whole(&folder.join("manifest.json"), text.as_bytes())
    }
}

/// When and from which sources something was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Provenance {
    /// UTC, RFC 3339.
    pub date: String,
    /// Version of specdec.
    pub specdec: String,
    /// Commit of the working folder's repository, or `unknown`.
    pub git_commit: String,
    /// Whether that repository had uncommitted changes.
    pub git_dirty: bool,
}

impl Provenance {
    /// Of something made now.
    pub fn now() -> Self {
        let (git_commit, git_dirty) = git();
        let specdec = env!("CARGO_PKG_VERSION").to_owned();
        Self { date: utc_now(), specdec, git_commit, git_dirty }
    }
}

/// The current time in UTC, RFC 3339 to the second.
pub(super) fn utc_now() -> String {
    let format =
        time::macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    time::OffsetDateTime::now_utc().format(&format).unwrap_or_default()
}

/// The features that this program was built with.
fn features() -> impl Iterator<Item = &'static str> {
    let all = [("cuda", cfg!(feature = "cuda")), ("metal", cfg!(feature = "metal"))];
    all.into_iter().filter_map(|(name, on)| on.then_some(name))
}

fn git() -> (String, bool) {
    let ask = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = ask(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    // Results are what a run makes; they do not make the code another one.
    let dirty = ask(&["status", "--porcelain", "--", ".", ":!results"]);
    (commit, dirty.is_some_and(|changes| !changes.is_empty()))
}
