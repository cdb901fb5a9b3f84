//! Measures the share of a time span that other work on the machine took.

use std::time::Duration;

use crate::clock::{Clock, Lost};

/// A block is disturbed if our threads waited because of other processes, or the
/// host of a virtual machine took cores away, for more than this share of its wall
/// time.
pub const DISTURBED: f64 = 0.1;

/// The disturbance of a span of time, as shares of its wall time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Disturbance {
    /// Time that our threads waited for a core, summed over threads.
    pub(crate) waiting: f64,
    /// Core time that other processes used, summed over cores.
    pub(crate) others: f64,
    /// Time that the host took from our threads' share of the cores.
    pub(crate) stolen: f64,
}

/// A span of time that is watched for disturbances.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    clock: &'a dyn Clock,
    begun: Duration,
    lost: Lost,
}

impl<'a> Watch<'a> {
    /// Starts watching now.
    pub(crate) fn begin(clock: &'a dyn Clock) -> Self {
        Self { clock, begun: clock.now(), lost: clock.lost() }
    }

    /// The disturbance of the span so far, for work on `threads` threads of a machine with `cores`
    /// cores.
    pub(crate) fn end(&self, threads: usize, cores: usize) -> Disturbance {
        let wall = (self.clock.now() - self.begun).as_secs_f64();
        let share = |now: Duration, before: Duration| {
            now.saturating_sub(before).as_secs_f64() / wall.max(f64::MIN_POSITIVE)
        };
        let lost = self.clock.lost();
        // It is unknown whether our threads were on the cores that lost time, so they are charged
        // their share.
        let ours = (threads as f64 / cores.max(1) as f64).min(1.0);
        Disturbance {
            waiting: share(lost.waiting, self.lost.waiting),
            others: share(lost.others, self.lost.others + lost.others_error),
            stolen: ours * share(lost.stolen, self.lost.stolen),
        }
    }
}

impl Disturbance {
    /// The share of the time that other work took.
    pub(crate) fn share(self) -> f64 {
        self.waiting.min(self.others) + self.stolen
    }

    /// Whether times from this span must not be trusted.
    pub(crate) fn is_disturbed(self) -> bool {
        self.share() > DISTURBED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// At the second reading, 100 ms have passed and other processes have used `others` ms.
    #[derive(Debug)]
    struct Second {
        others: u64,
        readings: Cell<u32>,
    }

    impl Clock for Second {
        fn now(&self) -> Duration {
            Duration::from_millis(if self.readings.get() == 0 { 0 } else { 100 })
        }

        fn lost(&self) -> Lost {
            let after = u64::from(self.readings.replace(1));
            let ms = |ms: u64| Duration::from_millis(after * ms);
            let others_error = Duration::from_millis(30);
            Lost { waiting: ms(50), others: ms(self.others), others_error, stolen: ms(0) }
        }
    }

    #[test]
    fn shares_within_the_reading_error_are_no_disturbance() {
        let share = |others| {
            let clock = Second { others, readings: Cell::new(0) };
            let share = Watch::begin(&clock).end(2, 2).share();
            (100.0 * share).round() as u32
        };
        assert_eq!([share(0), share(30), share(50), share(90)], [0, 0, 20, 50]);
    }
}
