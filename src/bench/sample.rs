//! Samples of several tasks, taken in turns.

use std::time::Duration;

use crate::clock::Clock;
use crate::error::Error;
use crate::machine::Watch;
use crate::pool::Pool;
use crate::statistics::quantile;

/// A sample during which our threads waited for a core, or the host took it away,
/// for more than this share of it was disturbed by other work: it is dropped. It is
/// too short to ask what other processes used meanwhile, which is counted in ticks.
const DISTURBED: f64 = 0.02;
/// Undisturbed samples of a task that a number needs.
pub const ENOUGH: usize = 5;
/// A sample takes at least this long; short tasks are repeated within it.
const LEAST: Duration = Duration::from_micros(500);
/// Samples of each task to take, disturbed ones included, at least and at most.
const SAMPLES: (usize, usize) = (7, 200);
/// Where samples are disturbed, tasks take turns for up to so many budgets.
const PATIENCE: u32 = 3;

/// The samples of one task, in µs per call.
#[derive(Debug, Clone, Default)]
pub struct Timing {
    /// The undisturbed ones.
    kept: Vec<f64>,
    dropped: usize,
}

/// Something to be timed.
pub(super) type Run<'a> = dyn FnMut() -> Result<(), Error> + 'a;
/// One that is owned.
pub(super) type Task<'a> = Box<Run<'a>>;

impl Timing {
    /// The quantile, in µs; `None` of fewer than [`ENOUGH`]
    /// undisturbed samples.
    fn quantile(&self, q: f64) -> Option<f64> {
        let mut sorted = self.kept.clone();
        sorted.sort_by(f64::total_cmp);
        quantile(&sorted, q).filter(|_| self.is_enough())
    }

    /// Whether there are enough undisturbed samples.
    pub fn is_enough(&self) -> bool {
        self.kept.len() >= ENOUGH
    }

    /// Median, in µs.
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// Shortest, in µs.
    pub fn min(&self) -> Option<f64> {
        self.quantile(0.0)
    }

    /// Interquartile range as a share of the median.
    pub fn spread(&self) -> Option<f64> {
        Some((self.quantile(0.75)? - self.quantile(0.25)?) / self.median()?.max(f64::MIN_POSITIVE))
    }

    /// The timing of one of `parts` equal parts.
    pub(super) fn per(self, parts: f64) -> Self {
        Self { kept: self.kept.into_iter().map(|us| us / parts).collect(), ..self }
    }

    /// Number of undisturbed samples.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Number of samples that were dropped as disturbed.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    pub(super) fn add(&mut self, sample: Sample) {
        match sample.share > DISTURBED {
            true => self.dropped += 1,
            false => self.kept.push(sample.micros),
        }
    }
}

/// What takes samples of work on the shared pool.
#[derive(Debug)]
pub(super) struct Stopwatch<'a> {
    clock: &'a dyn Clock,
    threads: usize,
    cores: usize,
}

/// One sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// µs per call.
    pub(super) micros: f64,
    /// The share of it that other work on the machine took.
    pub(super) share: f64,
}

impl<'a> Stopwatch<'a> {
    pub(super) fn new(clock: &'a dyn Clock) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { clock, threads: Pool::shared().threads(), cores }
    }

    /// What its time is taken from.
    pub(super) fn clock(&self) -> &'a dyn Clock {
        self.clock
    }

    /// Watches for disturbances from now on.
    pub(super) fn watch(&self) -> Watch<'a> {
        Watch::begin(self.clock)
    }

    /// A sample of one call that took `time`, watched until now.
    pub(super) fn watched(&self, time: Duration, watch: &Watch<'_>) -> Sample {
        let disturbance = watch.end(self.threads, self.cores);
        let share = disturbance.waiting + disturbance.stolen;
        Sample { micros: time.as_secs_f64() * 1e6, share }
    }

    /// Times tasks in turns, so that whatever drifts hits all of them alike,
    /// until every one has its samples and `budget` is spent, or until it is
    /// spent [`PATIENCE`] times.
    ///
    /// # Errors
    /// If a task fails.
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

    /// How often a task must run to fill a sample; runs it four times. The shortest
    /// of three calls is least likely to be a disturbed one.
    ///
    /// # Errors
    /// If the task fails.
    pub(super) fn repeats(&self, task: &mut Run<'_>) -> Result<u32, Error> {
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

    /// Takes one sample.
    ///
    /// # Errors
    /// If the task fails.
    pub(super) fn sample(&self, task: &mut Run<'_>, repeats: u32) -> Result<Sample, Error> {
        let watch = self.watch();
        let start = self.clock.now();
        for _ in 0..repeats {
            task()?;
        }
        Ok(self.watched((self.clock.now() - start) / repeats, &watch))
    }
}
