//! Takes samples of several tasks in turns.

use std::time::Duration;

use crate::core::clock::Clock;
use crate::core::error::Error;
use crate::engine::pool::Pool;
use crate::measure::machine::Watch;
use crate::measure::statistics::{median, quantile};

/// A sample is dropped as disturbed if, for more than this share of it, our threads waited
/// for a core, the host took a core away, or the process was stopped. Samples are too short to
/// measure the CPU time of other processes, which the system counts in ticks.
const DISTURBED: f64 = 0.02;
/// The minimum number of undisturbed samples behind a reported number.
pub const ENOUGH: usize = 5;
/// The minimum duration of a sample; short tasks are repeated within it.
const LEAST: Duration = Duration::from_micros(500);
/// The minimum and maximum number of samples per task, including disturbed ones.
const SAMPLES: (usize, usize) = (7, 200);
/// If samples are disturbed, sampling may take this many times the budget.
const PATIENCE: u32 = 3;

/// The samples of one task, in µs per call.
#[derive(Debug, Clone, Default)]
pub struct Timing {
    /// The undisturbed samples.
    kept: Vec<f64>,
    dropped: Vec<f64>,
}

/// A callable that is timed.
pub(crate) type TimedCall<'a> = dyn FnMut() -> Result<(), Error> + 'a;
/// An owned [`TimedCall`].
pub(crate) type Task<'a> = Box<TimedCall<'a>>;

impl Timing {
    /// A quantile, in µs; `None` with fewer than [`ENOUGH`] undisturbed samples.
    fn quantile(&self, q: f64) -> Option<f64> {
        let mut sorted = self.kept.clone();
        sorted.sort_by(f64::total_cmp);
        quantile(&sorted, q).filter(|_| self.is_enough())
    }

    /// Median, in µs, of the undisturbed samples or, if these are too few, of all: for callers that
    /// judge by the disturbance of the whole measurement.
    pub fn median_of_any(&self) -> Option<f64> {
        self.median().or_else(|| median(&[&self.kept[..], &self.dropped].concat()))
    }

    /// Whether there are at least [`ENOUGH`] undisturbed samples.
    pub fn is_enough(&self) -> bool {
        self.kept.len() >= ENOUGH
    }

    /// Median, in µs; `None` with too few undisturbed samples.
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// Shortest sample, in µs; `None` with too few undisturbed samples.
    pub fn min(&self) -> Option<f64> {
        self.quantile(0.0)
    }

    /// Interquartile range ÷ median; `None` with too few undisturbed samples.
    pub fn spread(&self) -> Option<f64> {
        Some((self.quantile(0.75)? - self.quantile(0.25)?) / self.median()?.max(f64::MIN_POSITIVE))
    }

    /// The timing of one of `parts` equal parts.
    pub(super) fn per(self, parts: f64) -> Self {
        let of = |samples: Vec<f64>| samples.into_iter().map(|us| us / parts).collect();
        Self { kept: of(self.kept), dropped: of(self.dropped) }
    }

    /// Number of undisturbed samples.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Number of samples that were dropped as disturbed.
    pub fn dropped(&self) -> usize {
        self.dropped.len()
    }

    pub(super) fn add(&mut self, sample: TimingSample) {
        match sample.share > DISTURBED {
            true => self.dropped.push(sample.micros),
            false => self.kept.push(sample.micros),
        }
    }
}

/// Takes samples of work on the shared thread pool.
#[derive(Debug)]
pub(crate) struct Stopwatch<'a> {
    clock: &'a dyn Clock,
    threads: usize,
    cores: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TimingSample {
    /// µs per call.
    pub(crate) micros: f64,
    /// The share of the sample that was lost.
    pub(crate) share: f64,
}

impl<'a> Stopwatch<'a> {
    pub(crate) fn new(clock: &'a dyn Clock) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { clock, threads: Pool::shared().threads(), cores }
    }

    pub(super) fn clock(&self) -> &'a dyn Clock {
        self.clock
    }

    /// Watches for disturbances from now on.
    pub(super) fn watch(&self) -> Watch<'a> {
        Watch::begin(self.clock)
    }

    /// Ends the watch and returns a sample of one call that took `time`.
    pub(super) fn watched(&self, time: Duration, watch: &Watch<'_>) -> TimingSample {
        let disturbance = watch.end(self.threads, self.cores);
        let share = disturbance.waiting + disturbance.stolen + disturbance.stopped;
        TimingSample { micros: time.as_secs_f64() * 1e6, share }
    }

    /// Times tasks in turns, so that drift of the machine affects all of them equally. Stops
    /// when every task has enough undisturbed samples and `budget` is spent, or after
    /// [`PATIENCE`] budgets.
    pub(super) fn in_turns(
        &self,
        tasks: &mut [Task<'_>],
        budget: Duration,
    ) -> Result<Vec<Timing>, Error> {
        let counts = tasks.iter_mut().map(|task| self.repeats(&mut **task));
        let counts = counts.collect::<Result<Vec<_>, _>>()?;
        let mut timings = vec![Timing::default(); tasks.len()];
        let start = self.clock.now();
        for turn in 0..SAMPLES.1 {
            let enough = timings.iter().all(Timing::is_enough);
            let budget = if enough { budget } else { PATIENCE * budget };
            if turn >= SAMPLES.0 && self.clock.now() - start >= budget {
                break;
            }
            for ((task, timing), &repeats) in tasks.iter_mut().zip(&mut timings).zip(&counts) {
                timing.add(self.sample(&mut **task, repeats)?);
            }
        }
        Ok(timings)
    }

    /// The number of calls that fill a sample. Runs the task four times: once to warm up, then
    /// three times, of which the shortest is the least likely to be disturbed.
    pub(crate) fn repeats(&self, task: &mut TimedCall<'_>) -> Result<u32, Error> {
        task()?;
        let mut shortest = Duration::MAX;
        for _ in 0..3 {
            let start = self.clock.now();
            task()?;
            shortest = shortest.min(self.clock.now() - start);
        }
        let repeats = LEAST.as_nanos() / shortest.as_nanos().max(1) + 1;
        Ok(u32::try_from(repeats).unwrap_or(u32::MAX))
    }

    /// Takes one sample of `repeats` calls.
    pub(crate) fn sample(
        &self,
        task: &mut TimedCall<'_>,
        repeats: u32,
    ) -> Result<TimingSample, Error> {
        let watch = self.watch();
        let start = self.clock.now();
        for _ in 0..repeats {
            task()?;
        }
        Ok(self.watched((self.clock.now() - start) / repeats, &watch))
    }
}
