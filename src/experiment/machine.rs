//! What this machine is and how disturbed it is.

use std::fs;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Lost, RealClock};
use crate::lanes::IsaKind;

/// The processor as results name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model name.
    pub cpu_model: String,
    /// Its features, as the kernel lists them.
    pub cpu_flags: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Instruction set that the engine's kernels use.
    pub isa: String,
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
            isa: IsaKind::active().name().to_owned(),
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

/// Wall-clock time that knows what other work on the machine took of it.
#[derive(Debug, Default)]
pub struct MachineClock(RealClock);

impl Clock for MachineClock {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn lost(&self) -> Lost {
        Lost { waiting: waited(), stolen: stolen() }
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

/// Steal time of all cores: the eighth number of the first line of `/proc/stat`,
/// in hundredths of a second.
fn stolen() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let cpu = text.lines().next().unwrap_or_default();
    let ticks = cpu.split_whitespace().nth(8).and_then(|w| w.parse::<u64>().ok());
    Duration::from_millis(10 * ticks.unwrap_or(0))
}
