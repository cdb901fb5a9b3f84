//! A thread pool whose workers stay awake between the products of a pass.
//!
//! A pass has dozens of products of some microseconds each, so workers poll for the next one and
//! sleep only after some time without work. Work within a phase is claimed piece by piece, and a
//! phase ends when its pieces are done: a worker that has lost its core to another process delays
//! the pass only by its current piece, if it has one. A worker that repeatedly delays the others by
//! more than it contributes is excluded for a while.

mod gate;
mod look;
mod roster;
mod shared;
mod state;

pub(crate) use shared::Shared;
pub use state::{Away, Job, Worker};

use std::io;
use std::panic;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use self::roster::{Roster, WINDOW};
use self::state::{Patience, PoolState};

/// The time for which threads poll for the end of a phase is longer than most pieces take. The time
/// for which they poll for the next job is longer than the gap between two jobs of small models.
/// Waking up would take tens of microseconds.
const PATIENCE: Patience =
    Patience { phase: Duration::from_micros(100), idle: Duration::from_micros(200) };

/// See [`Pool::shared`].
static SHARED: OnceLock<Arc<Pool>> = OnceLock::new();

/// A fixed number of threads, the caller's included.
#[derive(Debug)]
pub struct Pool {
    state: Arc<PoolState>,
    workers: Vec<JoinHandle<()>>,
    /// Held while a job runs, so that jobs of several callers run one after another.
    turn: Mutex<Turn>,
}

/// The state that is kept between jobs.
#[derive(Debug)]
struct Turn {
    roster: Roster,
    /// Time spent in jobs since the threads were last judged.
    time: Duration,
    /// Number of jobs so far of a [`Pool::restless`].
    restless: Option<usize>,
}

impl Pool {
    /// Starts `threads − 1` workers in addition to the caller's thread.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub fn new(threads: usize) -> io::Result<Self> {
        Self::start(threads, PATIENCE, None)
    }

    /// A pool for testing the code that runs on it: its threads sleep at every wait,
    /// and each job runs on a different set of them.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn restless(threads: usize) -> io::Result<Self> {
        let patience = Patience { phase: Duration::ZERO, idle: Duration::ZERO };
        Self::start(threads, patience, Some(0))
    }

    fn start(threads: usize, patience: Patience, restless: Option<usize>) -> io::Result<Self> {
        let threads = threads.max(1);
        let state = Arc::new(PoolState::new(threads, patience));
        let roster = Roster::new(threads);
        let turn = Mutex::new(Turn { roster, time: Duration::ZERO, restless });
        let mut pool = Self { state, workers: Vec::new(), turn };
        for index in 1..threads {
            let state = Arc::clone(&pool.state);
            let worker = thread::Builder::new().name(format!("worker {index}"));
            pool.workers.push(worker.spawn(move || {
                roster::pin(index, threads);
                state.serve(index);
            })?);
        }
        Ok(pool)
    }

    /// The pool that models share. It has one thread per core unless [`Pool::share`]
    /// has made it before, and only the caller's thread if the system refuses to start
    /// more.
    pub fn shared() -> Arc<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let start = || Self::new(cores).or_else(|_| Self::new(1)).expect("needs no other thread");
        Arc::clone(SHARED.get_or_init(|| Arc::new(start())))
    }

    /// Makes the pool that models share, unless it exists; returns its number of
    /// threads.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub fn share(threads: usize) -> io::Result<usize> {
        if SHARED.get().is_none() {
            // If another thread has made the pool in the meantime, that pool stays.
            let _ = SHARED.set(Arc::new(Self::new(threads)?));
        }
        Ok(Self::shared().threads())
    }

    /// Does `work` for each of `rows` rows on the threads of the shared pool.
    pub fn for_each_row(rows: usize, work: &(dyn Fn(usize) + Sync)) {
        Self::shared().run(&|worker| worker.share(rows, work));
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.state.threads()
    }

    /// Readmits all workers to the next jobs, including those that were excluded for delaying
    /// others.
    pub fn forgive(&self) {
        let mut turn = self.turn.lock();
        turn.roster = Roster::new(self.threads());
        turn.time = Duration::ZERO;
        self.state.records();
        self.state.follow(|_| true);
    }

    /// Runs `job` on the caller's thread and on the available workers, and returns when
    /// all of them have left it. A worker may run it late, more than once, or not at
    /// all.
    ///
    /// # Panics
    /// If the job panics on any thread, with that panic; and if a job runs another job.
    pub fn run(&self, job: &Job<'_>) {
        self.run_on(self.threads(), job);
    }

    /// The same on the first `threads` threads only, the caller's included. The other workers stay
    /// awake for the next job.
    ///
    /// # Panics
    /// As [`Self::run`].
    pub fn run_on(&self, threads: usize, job: &Job<'_>) {
        assert!(!state::is_working(), "a job of a pool must not run another job");
        let mut turn = self.turn.lock();
        let start = Instant::now();
        let panic = self.state.run(threads.clamp(1, self.threads()), job);
        if threads > 1 {
            turn.time += start.elapsed();
            turn.choose(&self.state);
        }
        drop(turn);
        if let Some(panic) = panic {
            panic::resume_unwind(panic);
        }
    }
}

impl Turn {
    /// Chooses the threads that take part in the next job.
    fn choose(&mut self, state: &PoolState) {
        if let Some(jobs) = &mut self.restless {
            *jobs += 1;
            // Cycles through all sets of workers.
            state.follow(|thread| thread == 0 || *jobs >> ((thread - 1) % 8) & 1 == 1);
        } else if self.time >= WINDOW {
            self.roster.judge(std::mem::take(&mut self.time), &state.records());
            state.follow(|thread| self.roster.has(thread));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.state.stop();
        for worker in self.workers.drain(..) {
            // Workers catch the panics of jobs and do not panic themselves.
            let _ = worker.join();
        }
    }
}
