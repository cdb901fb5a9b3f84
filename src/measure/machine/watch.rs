//! Measures the share of a time span that other work on the machine, limits and stops took.

use std::time::Duration;

use crate::core::clock::{Clock, Lost};

/// A block is disturbed if it lost more than this share of its wall time.
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
    /// Core time that a limit withheld from us, summed over cores.
    pub(crate) throttled: f64,
    /// Time for which the process stood still and that the others do not explain.
    pub(crate) stopped: f64,
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
    /// cores. Must be called on the thread that began it, and that decodes.
    ///
    /// The wall time is what this thread ran, plus what it waited for a core, plus the time for
    /// which it slept, the host had its core, or the process was stopped. It may sleep for good
    /// reasons: until other threads or a GPU have computed, or until a file is written. So the rest
    /// counts as stopped only up to the time for which the whole process stood still. A limit that
    /// the system does not show makes all threads wait: waiting that nothing explains counts, too,
    /// up to the time for which the whole process was held up.
    pub(crate) fn end(&self, threads: usize, cores: usize) -> Disturbance {
        let wall = (self.clock.now() - self.begun).as_secs_f64();
        let share = |now: Duration, before: Duration| {
            now.saturating_sub(before).as_secs_f64() / wall.max(f64::MIN_POSITIVE)
        };
        let lost = self.clock.lost();
        // It is unknown whether our threads were on the cores that lost time, so they are charged
        // their share.
        let ours = (threads as f64 / cores.max(1) as f64).min(1.0);
        let known = Disturbance {
            waiting: share(lost.waiting, self.lost.waiting),
            others: share(lost.others, self.lost.others + lost.others_error),
            stolen: ours * share(lost.stolen, self.lost.stolen),
            throttled: share(lost.throttled, self.lost.throttled),
            stopped: 0.0,
        };
        let off_core = 1.0 - share(lost.ran, self.lost.ran);
        let rest = off_core - share(lost.waited, self.lost.waited);
        let still = share(lost.still, self.lost.still).min(rest) - known.stolen;
        let unexplained = share(lost.late, self.lost.late).min(off_core) - known.share();
        Disturbance { stopped: still.max(unexplained).max(0.0), ..known }
    }
}

impl Disturbance {
    /// The share of the time that was lost. Our threads also wait for each other, so waiting
    /// counts up to the core time that others used and limits withheld.
    pub(crate) fn share(self) -> f64 {
        self.waiting.min(self.others + self.throttled) + self.stolen + self.stopped
    }

    /// What took the largest part, in words.
    pub(crate) fn cause(self) -> &'static str {
        let parts = [
            (self.stopped, "stops of the process"),
            (self.stolen, "the host of the virtual machine"),
            (self.waiting.min(self.throttled), "a CPU limit"),
            (self.waiting.min(self.others), "other work"),
        ];
        let largest = parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        largest.map_or("", |(_, cause)| cause)
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

    /// At the second reading, 100 ms have passed, and this time was lost.
    #[derive(Debug)]
    struct Second {
        lost: Lost,
        readings: Cell<u32>,
    }

    impl Clock for Second {
        fn now(&self) -> Duration {
            Duration::from_millis(if self.readings.get() == 0 { 0 } else { 100 })
        }

        fn lost(&self) -> Lost {
            let after = if self.readings.replace(1) == 0 { Lost::default() } else { self.lost };
            Lost { others_error: Duration::from_millis(30), ..after }
        }
    }

    fn disturbance(lost: Lost) -> Disturbance {
        let clock = Second { lost, readings: Cell::new(0) };
        Watch::begin(&clock).end(2, 2)
    }

    /// A share in percent.
    fn percent(share: f64) -> u32 {
        (100.0 * share).round() as u32
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn shares_within_the_reading_error_are_no_disturbance() {
        let share = |others| {
            let lost = Lost { waiting: ms(50), others: ms(others), ..Lost::default() };
            percent(disturbance(lost).share())
        };
        assert_eq!([share(0), share(30), share(50), share(90)], [0, 0, 20, 50]);
    }

    /// Catches: waiting because of a limit does not count, or counts without any waiting.
    #[test]
    fn waiting_counts_up_to_what_a_limit_withheld() {
        let found = |waiting, throttled| {
            let lost = Lost {
                waiting: ms(waiting),
                throttled: ms(throttled),
                ran: ms(30),
                ..Lost::default()
            };
            (percent(disturbance(lost).share()), disturbance(lost).cause())
        };
        assert_eq!(found(70, 90), (70, "a CPU limit"));
        assert_eq!((found(70, 20).0, found(0, 90).0), (20, 0));
    }

    /// Catches: a thread that sleeps until a GPU is done counts as stopped; late beats count
    /// while the thread runs; time counts twice that other work or the host took; a stop is not
    /// seen on a busy machine.
    #[test]
    fn a_stop_is_what_nothing_else_explains() {
        let found = |lost: Lost| (percent(disturbance(lost).stopped), disturbance(lost).cause());
        let stop = Lost { ran: ms(40), late: ms(60), still: ms(60), ..Lost::default() };
        assert_eq!(found(stop), (60, "stops of the process"));
        assert_eq!(found(Lost { late: ms(0), still: ms(0), ..stop }).0, 0, "it sleeps");
        assert_eq!(found(Lost { ran: ms(95), ..stop }).0, 5, "it runs");
        assert_eq!(found(Lost { stolen: ms(50), ..stop }), (10, "the host of the virtual machine"));
        let hidden = Lost { waited: ms(60), still: ms(0), ..stop };
        assert_eq!(found(hidden).0, 60, "a limit that the system does not show");
        let busy = Lost { waiting: ms(70), others: ms(85), ..hidden };
        assert_eq!((found(busy), percent(disturbance(busy).share())), ((5, "other work"), 60));
        let stopped_too = Lost { waited: ms(20), still: ms(40), ..busy };
        assert_eq!(found(stopped_too).0, 40);
    }
}
