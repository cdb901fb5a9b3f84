//! Samples of several tasks, taken in turns.

use std::time::{Duration, Instant};

use crate::experiment::QueueDelay;
use crate::model::ModelError;

/// A sample during which our threads waited longer than this share of it for a
/// core was disturbed by other processes: it is dropped.
const DISTURBED: f64 = 0.02;
/// A sample takes at least this long; short tasks are repeated within it.
const LEAST: Duration = Duration::from_micros(500);
/// Samples of each task to take, disturbed ones included, at least and at most.
const SAMPLES: (usize, usize) = (7, 200);

/// The samples of one task, in µs per call.
#[derive(Debug, Clone, Default)]
pub struct Timing {
    kept: Vec<f64>,
    disturbed: Vec<f64>,
}

/// Something to be timed.
pub(super) type Run<'a> = dyn FnMut() -> Result<(), ModelError> + 'a;
/// One that is owned.
pub(super) type Task<'a> = Box<Run<'a>>;

impl Timing {
    /// The samples that count: the undisturbed ones or, if there are fewer than
    /// three, all of them.
    fn counted(&self) -> Vec<f64> {
        let mut counted = self.kept.clone();
        if counted.len() < 3 {
            counted.extend(&self.disturbed);
        }
        counted.sort_by(f64::total_cmp);
        counted
    }

    fn quantile(&self, q: f64) -> f64 {
        let sorted = self.counted();
        sorted.get(((sorted.len().max(1) - 1) as f64 * q).round() as usize).copied().unwrap_or(0.0)
    }

    /// Median, in µs.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Shortest, in µs.
    pub fn min(&self) -> f64 {
        self.quantile(0.0)
    }

    /// Interquartile range as a share of the median.
    pub fn spread(&self) -> f64 {
        (self.quantile(0.75) - self.quantile(0.25)) / self.median().max(f64::MIN_POSITIVE)
    }

    /// The timing of one of `parts` equal parts.
    pub(super) fn per(self, parts: f64) -> Self {
        let each = |samples: Vec<f64>| samples.into_iter().map(|us| us / parts).collect();
        Self { kept: each(self.kept), disturbed: each(self.disturbed) }
    }

    /// Number of samples that count.
    pub fn kept(&self) -> usize {
        self.counted().len()
    }

    /// Number of samples that were dropped as disturbed.
    pub fn dropped(&self) -> usize {
        self.kept.len() + self.disturbed.len() - self.kept()
    }
}

/// Times tasks in turns, so that whatever drifts hits all of them alike, until
/// every one has its samples and `budget` is spent.
///
/// # Errors
/// If a task fails.
pub(super) fn in_turns(
    tasks: &mut [Task<'_>],
    budget: Duration,
) -> Result<Vec<Timing>, ModelError> {
    let counts =
        tasks.iter_mut().map(|task| repeats(&mut **task)).collect::<Result<Vec<_>, _>>()?;
    let mut timings = vec![Timing::default(); tasks.len()];
    let start = Instant::now();
    for turn in 0..SAMPLES.1 {
        if turn >= SAMPLES.0 && start.elapsed() >= budget {
            break;
        }
        for ((task, timing), &repeats) in tasks.iter_mut().zip(&mut timings).zip(&counts) {
            let (micros, share) = sample(&mut **task, repeats)?;
            let disturbed = share > DISTURBED;
            if disturbed { &mut timing.disturbed } else { &mut timing.kept }.push(micros);
        }
    }
    Ok(timings)
}

/// How often a task must run to fill a sample; runs it twice.
///
/// # Errors
/// If the task fails.
pub(super) fn repeats(task: &mut Run<'_>) -> Result<u32, ModelError> {
    task()?;
    let start = Instant::now();
    task()?;
    let repeats = LEAST.as_nanos() / start.elapsed().as_nanos().max(1) + 1;
    Ok(u32::try_from(repeats).unwrap_or(u32::MAX))
}

/// One sample: µs per call, and the share of it during which our threads waited
/// for a core.
///
/// # Errors
/// If the task fails.
pub(super) fn sample(task: &mut Run<'_>, repeats: u32) -> Result<(f64, f64), ModelError> {
    let delay = QueueDelay::start();
    let start = Instant::now();
    for _ in 0..repeats {
        task()?;
    }
    let micros = start.elapsed().as_secs_f64() * 1e6 / f64::from(repeats);
    Ok((micros, delay.share()))
}
