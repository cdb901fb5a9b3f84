//! The manifest as far as the report needs it: where, when and with what a run
//! was made, and what the machine's passes cost.

use serde::Deserialize;
use serde_json::Value;

use crate::experiment::Calibration;

/// `manifest.json`. What a manifest lacks is shown as unknown, so that a report
/// of an older run can still be made.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// Version of the harness.
    pub specdec: String,
    /// Commit of its sources.
    pub git_commit: Option<String>,
    /// Whether the sources differed from the commit.
    pub git_dirty: Option<bool>,
    /// The command.
    pub command_line: Value,
    /// The compiler.
    pub rustc: Option<String>,
    /// The processor.
    pub cpu_model: Option<String>,
    /// Its cores.
    pub cores: Option<usize>,
    /// Worker threads.
    pub threads: Option<usize>,
    /// Mean number of runnable tasks on the machine, over 1 (5, 15) minutes.
    pub load_average: Value,
    /// Share of the run's time in which a thread was ready but had no core.
    pub run_queue_delay_share: Option<f64>,
    /// Costs of passes and bookkeeping.
    pub calibration: Calibration,
    /// `finished`, `running` or `interrupted`.
    pub status: String,
    /// When the run began, UTC.
    pub started: Option<String>,
    /// When it ended, UTC.
    pub finished: Option<String>,
}

impl Manifest {
    /// The one-minute load average, if it was recorded.
    pub fn load(&self) -> Option<f64> {
        self.load_average.as_f64().or_else(|| self.load_average.get(0)?.as_f64())
    }

    /// The command as one line.
    pub fn command(&self) -> String {
        match &self.command_line {
            Value::String(line) => line.clone(),
            Value::Array(words) => {
                words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
            }
            _ => String::new(),
        }
    }
}
