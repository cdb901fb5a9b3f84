//! Describes this machine and measures the time that other work on it, limits and stops take.

mod heartbeat;
mod limit;
mod watch;

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::clock::{Clock, Lost, RealClock};
use crate::core::lanes::IsaKind;

pub use watch::DISTURBED;
pub(crate) use watch::{Disturbance, Watch};

use heartbeat::Heartbeat;
use limit::throttled;

/// The processor, as recorded in results.
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
    /// Reads the description from the kernel; unknown fields are `unknown`.
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

/// The name of this machine: the value of the environment variable [`HOST`], or else the kernel's
/// host name. In a container, that is the name of the container.
pub(crate) fn host() -> String {
    let kernel = || fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let other = || std::env::var("HOSTNAME").ok();
    let set = std::env::var(HOST).ok().filter(|name| !name.trim().is_empty());
    let name = set.or_else(kernel).or_else(other).unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// The environment variable with the machine's name, for machines whose host name does not identify
/// them.
pub const HOST: &str = "SPECDEC_MACHINE";

/// The load averages over 1, 5 and 15 minutes; zeros where unknown.
pub(crate) fn load_average() -> [f64; 3] {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut values = text.split_whitespace().filter_map(|w| w.parse().ok());
    std::array::from_fn(|_| values.next().unwrap_or(0.0))
}

/// Wall-clock time that also measures the time lost to other work on the machine, limits and
/// stops. Only Linux reports it; elsewhere no time counts as lost.
#[derive(Debug, Default)]
pub struct MachineClock {
    real: RealClock,
    heartbeat: Heartbeat,
}

impl Clock for MachineClock {
    fn now(&self) -> Duration {
        self.real.now()
    }

    fn lost(&self) -> Lost {
        let cores = Cores::read();
        let others = cores.busy.saturating_sub(used());
        let ([ran, waited], late) = (on_core(THIS_THREAD), self.heartbeat.late());
        Lost {
            waiting: waiting(),
            others: ticks(others),
            others_error: ticks(ROUNDED),
            stolen: ticks(cores.stolen),
            throttled: throttled(),
            ran,
            waited,
            late: late.all,
            still: late.still,
        }
    }
}

/// Ticks by which rounding may enlarge a difference of two readings. The kernel rounds each summed
/// time, of all cores and of this process, down to whole ticks, and some of these times pass a tick
/// between the readings.
const ROUNDED: u64 = 3;

/// Converts ticks: the kernel counts the time of cores and processes in hundredths of a
/// second.
fn ticks(number: u64) -> Duration {
    Duration::from_millis(10 * number)
}

/// Time of all cores, in ticks.
#[derive(Debug, Default, PartialEq)]
struct Cores {
    busy: u64,
    stolen: u64,
}

impl Cores {
    fn read() -> Self {
        Self::of(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// Parses the first line of `/proc/stat`.
    fn of(text: &str) -> Self {
        let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let ticks = fields.map(|w| w.parse().unwrap_or(0)).collect::<Vec<u64>>();
        let [user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = ticks[..] else {
            return Self::default();
        };
        Self { busy: user + nice + system + irq + softirq, stolen }
    }
}

/// Time of all threads of this process, in ticks.
fn used() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name is in parentheses and may contain anything, even a `)`.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).map(|w| w.parse::<u64>().unwrap_or(0)).sum()
}

/// Run-queue delay of all threads.
fn waiting() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.map(|task| on_core(task.path())[1]).sum()
}

/// The calling thread.
const THIS_THREAD: &str = "/proc/thread-self";

/// The time for which a thread was on a core, and its run-queue delay.
fn on_core(thread: impl AsRef<Path>) -> [Duration; 2] {
    core_times(&fs::read_to_string(thread.as_ref().join("schedstat")).unwrap_or_default())
}

/// The same from the text of its `schedstat`: the first two numbers.
fn core_times(text: &str) -> [Duration; 2] {
    let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap_or(0));
    std::array::from_fn(|_| Duration::from_nanos(numbers.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 cores count more than 2³² ticks within eight days.
    #[test]
    fn tick_counts_beyond_32_bits_are_read() {
        let text = "cpu  5000000000 1 4000000000 9 9 20 300 7000000000 0 0\ncpu0 1 1 1 1 1 1 1 1\n";
        let cores = Cores { busy: 9_000_000_321, stolen: 7_000_000_000 };
        assert_eq!(Cores::of(text), cores);
        assert_eq!(ticks(cores.stolen).as_secs(), 70_000_000);
    }
}
