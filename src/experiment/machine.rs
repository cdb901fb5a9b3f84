//! What this machine is and how disturbed it was.

use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The processor as results name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model name.
    pub cpu_model: String,
    /// Its features, as the kernel lists them.
    pub cpu_flags: String,
    /// Cores this process may use.
    pub cores: usize,
}

impl Machine {
    /// Reads it from the kernel; what is not known is `unknown`.
    pub fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |names: &[&str]| {
            cpuinfo
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| names.contains(&key.trim()))
                .map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
        };
        Self {
            cpu_model: field(&["model name", "Model"]),
            cpu_flags: field(&["flags", "Features"]),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// A short name for folders, like `amd-epyc-2c`.
    pub fn slug(&self) -> String {
        let noise = ["cpu", "processor", "core", "r", "tm", "unknown"];
        let words = self
            .cpu_model
            .split(|c: char| !c.is_ascii_alphanumeric())
            .map(str::to_ascii_lowercase)
            .filter(|word| !word.is_empty() && !noise.contains(&word.as_str()))
            .take(4)
            .collect::<Vec<_>>();
        let model = if words.is_empty() { "cpu".to_owned() } else { words.join("-") };
        format!("{model}-{}c", self.cores)
    }
}

/// The load averages over 1, 5 and 15 minutes; zeros where unknown.
pub(super) fn load_average() -> [f64; 3] {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut values = text.split_whitespace().filter_map(|w| w.parse().ok());
    std::array::from_fn(|_| values.next().unwrap_or(0.0))
}

/// Measures how long this process's threads waited for a core while they were
/// ready to run: the trace that other processes leave in our timings.
#[derive(Debug)]
pub(crate) struct QueueDelay {
    start: Instant,
    waited: Duration,
}

impl QueueDelay {
    /// Starts measuring.
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), waited: waited() }
    }

    /// Waiting time since the start as a share of wall time.
    pub(crate) fn share(&self) -> f64 {
        let wall = self.start.elapsed().as_secs_f64();
        waited().saturating_sub(self.waited).as_secs_f64() / wall.max(f64::MIN_POSITIVE)
    }
}

/// Run-queue delay of all threads: the second number of each `schedstat`.
fn waited() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = tasks
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().nth(1).and_then(|w| w.parse::<u64>().ok()))
        .sum();
    Duration::from_nanos(nanos)
}
