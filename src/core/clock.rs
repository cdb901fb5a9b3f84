//! Time as a trait: real for measurements, and virtual for snapshot tests and for simulating any
//! cost ratio.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Which model a forward pass belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The drafter's model.
    Draft,
    /// The target model.
    Target,
}

/// A source of time for the decode loop.
pub trait Clock: std::fmt::Debug {
    /// Time since the clock was created.
    fn now(&self) -> Duration;

    /// Called after every forward pass with the number of rows computed.
    fn forward(&self, who: Who, rows: usize) {
        let _ = (who, rows);
    }

    /// Time lost to other work on the machine, limits and stops since the clock was created; zero
    /// for a clock that does not measure it.
    fn lost(&self) -> Lost {
        Lost::default()
    }
}

/// Time during which work was ready to run but did not, and what shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Time for which this process's threads waited for a core, summed over threads.
    pub waiting: Duration,
    /// Time for which other processes used cores, summed over cores: an upper bound on
    /// the time for which our threads waited because of them. `waiting` alone is not
    /// enough: our threads also wait for each other, and a woken thread waits briefly
    /// even on an idle machine.
    pub others: Duration,
    /// Upper bound on the positive error of the difference of two readings of `others`.
    pub others_error: Duration,
    /// Time that the host of a virtual machine took from its cores, summed over cores.
    pub stolen: Duration,
    /// Time for which a CPU limit withheld cores from this process, summed over cores: like
    /// `others`, an upper bound on the time for which our threads waited because of it.
    pub throttled: Duration,
    /// Time for which the calling thread was on a core. The readings of a span must come from the
    /// same thread.
    pub ran: Duration,
    /// Time for which the calling thread waited for a core.
    pub waited: Duration,
    /// Time by which a thread ran too late that sleeps for a fixed time only: the whole process was
    /// held up.
    pub late: Duration,
    /// The part of `late` for which that thread did not wait for a core: the process was stopped.
    pub still: Duration,
}

/// Wall-clock time.
#[derive(Debug)]
pub struct RealClock(Instant);

impl Default for RealClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for RealClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that advances only when a forward pass is reported, by a cost per pass plus a cost per
/// row; a pass without rows costs nothing. Two runs on it take exactly the same time.
#[derive(Debug)]
pub struct VirtualClock {
    costs: VirtualCosts,
    now: Cell<Duration>,
}

/// The cost of a forward pass on a [`VirtualClock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtualCosts {
    /// Per draft pass.
    pub draft_pass: Duration,
    /// Per draft row.
    pub draft_row: Duration,
    /// Per target pass.
    pub target_pass: Duration,
    /// Per target row.
    pub target_row: Duration,
}

impl Default for VirtualCosts {
    /// A draft pass ten times cheaper than a target pass, and rows that cost 5 % of a
    /// target pass: round numbers close to those of a memory-bound CPU.
    fn default() -> Self {
        Self {
            draft_pass: Duration::from_micros(95),
            draft_row: Duration::from_micros(5),
            target_pass: Duration::from_micros(950),
            target_row: Duration::from_micros(50),
        }
    }
}

impl VirtualClock {
    /// A clock at zero.
    pub fn new(costs: VirtualCosts) -> Self {
        Self { costs, now: Cell::new(Duration::ZERO) }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        self.now.get()
    }

    fn forward(&self, who: Who, rows: usize) {
        if rows == 0 {
            return;
        }
        let (pass, row) = match who {
            Who::Draft => (self.costs.draft_pass, self.costs.draft_row),
            Who::Target => (self.costs.target_pass, self.costs.target_row),
        };
        self.now.set(self.now.get() + pass + row * u32::try_from(rows).unwrap_or(u32::MAX));
    }
}
