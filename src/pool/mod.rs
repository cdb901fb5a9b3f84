//! Threads that stay awake between the products of a pass.
//!
//! A pass has dozens of products of some microseconds each, so workers wait for
//! the next one by looking, not by sleeping; after `IDLE` without work they
//! sleep. Work within a phase is claimed piece by piece: a worker that another
//! process has pushed off its core costs the pass its current piece, not its
//! share of the phase.

#![allow(unsafe_code)] // a job outlives its call only as long as workers run it

mod shared;

pub(crate) use shared::Shared;

use std::cell::Cell;
use std::hint::spin_loop;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a worker looks for work before it sleeps.
const IDLE: Duration = Duration::from_micros(300);
/// Looks between two readings of the clock, or between two offers of the core
/// to others.
const LOOKS: usize = 2_000;

/// See [`Pool::shared`].
static SHARED: OnceLock<Arc<Pool>> = OnceLock::new();

/// What the workers run: the same function on each of them.
type Job<'a> = dyn Fn(&Worker<'_>) + Sync + 'a;

/// A fixed number of threads, the caller's included.
#[derive(Debug)]
pub struct Pool {
    state: Arc<State>,
    workers: Vec<JoinHandle<()>>,
    /// Held while a job runs: jobs of several callers follow one another.
    turn: Mutex<()>,
}

#[derive(Debug)]
struct State {
    threads: usize,
    /// Number of jobs begun.
    begun: AtomicUsize,
    job: Mutex<Option<Pointer>>,
    stop: AtomicBool,
    barrier: Barrier,
    claimed: AtomicUsize,
    /// Threads that have left the job.
    left: AtomicUsize,
    /// A thread panicked: the others must not wait for it.
    broken: AtomicBool,
}

/// A job whose lifetime the pool watches over.
#[derive(Debug, Clone, Copy)]
struct Pointer(*const Job<'static>);

// SAFETY: the job is `Sync`, and `Pool::run` keeps it alive while it is shared.
unsafe impl Send for Pointer {}

/// One thread's view of a running job.
#[derive(Debug)]
pub struct Worker<'a> {
    index: usize,
    state: &'a State,
    /// Claims of all phases before this one.
    base: Cell<usize>,
}

impl Pool {
    /// Starts `threads − 1` workers beside the caller.
    pub fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        let state = Arc::new(State {
            threads,
            begun: AtomicUsize::new(0),
            job: Mutex::new(None),
            stop: AtomicBool::new(false),
            barrier: Barrier::default(),
            claimed: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        });
        let start = |index| {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                pin(index, threads);
                state.serve(index);
            })
        };
        let workers = (1..threads).map(start).collect();
        Self { state, workers, turn: Mutex::new(()) }
    }

    /// The pool that models share, on all cores unless [`Pool::share`] said
    /// otherwise before.
    pub fn shared() -> Arc<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Arc::clone(SHARED.get_or_init(|| Arc::new(Self::new(cores))))
    }

    /// Makes the pool that models share; false if there is one of another size.
    pub fn share(threads: usize) -> bool {
        SHARED.get_or_init(|| Arc::new(Self::new(threads))).threads() == threads
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.state.threads
    }

    /// Runs `job` on every thread and returns when all are done.
    ///
    /// # Panics
    /// If the job panicked on any thread.
    pub fn run(&self, job: &Job<'_>) {
        let _turn = lock(&self.turn);
        let state = &*self.state;
        state.claimed.store(0, Ordering::Relaxed);
        state.left.store(0, Ordering::Relaxed);
        state.barrier.arrived.store(0, Ordering::Relaxed);
        let pointer: *const Job<'_> = job;
        // SAFETY: only the lifetime changes. `run` does not return, and so the
        // job does not end, before every worker has left it.
        let pointer =
            unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(pointer) };
        *lock(&state.job) = Some(Pointer(pointer));
        state.begun.fetch_add(1, Ordering::Release);
        self.workers.iter().for_each(|worker| worker.thread().unpark());
        state.take_part(0, job);
        look_until(|| state.left.load(Ordering::Acquire) == state.threads);
        assert!(!state.broken.swap(false, Ordering::Relaxed), "a kernel panicked");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches the panics of jobs and has none of its own.
            let _ = worker.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn serve(&self, index: usize) {
        let mut done = 0;
        while self.wait_for_job(done) {
            done += 1;
            let Some(pointer) = *lock(&self.job) else { continue };
            // SAFETY: `Pool::run` keeps the job until this thread has left it.
            let job = unsafe { &*pointer.0 };
            self.take_part(index, job);
        }
    }

    /// Waits for a job after the first `done`; false if there will be none.
    fn wait_for_job(&self, done: usize) -> bool {
        let since = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if self.begun.load(Ordering::Acquire) != done {
                    return true;
                }
                spin_loop();
            }
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            if since.elapsed() > IDLE {
                thread::park();
            }
        }
    }

    fn take_part(&self, index: usize, job: &Job<'_>) {
        let worker = Worker { index, state: self, base: Cell::new(0) };
        if panic::catch_unwind(AssertUnwindSafe(|| job(&worker))).is_err() {
            self.broken.store(true, Ordering::Relaxed);
        }
        self.left.fetch_add(1, Ordering::Release);
    }
}

impl Worker<'_> {
    /// Number of this thread, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of threads of the job.
    pub fn threads(&self) -> usize {
        self.state.threads
    }

    /// Waits until every thread has come here; what they wrote before is then
    /// visible to all.
    ///
    /// # Panics
    /// If another thread has panicked: it will not come.
    pub fn barrier(&self) {
        let State { threads, broken, barrier, .. } = self.state;
        let round = barrier.round.load(Ordering::Relaxed);
        if barrier.arrived.fetch_add(1, Ordering::AcqRel) + 1 == *threads {
            barrier.arrived.store(0, Ordering::Relaxed);
            barrier.round.store(round + 1, Ordering::Release);
            return;
        }
        look_until(|| {
            assert!(!broken.load(Ordering::Relaxed), "another thread panicked");
            barrier.round.load(Ordering::Acquire) != round
        });
    }

    /// Shares the pieces `0..pieces` of a phase among the threads; every thread
    /// of the job must call it with the same number. Ends with a barrier.
    pub fn share(&self, pieces: usize, mut work: impl FnMut(usize)) {
        let base = self.base.get();
        loop {
            let piece = self.state.claimed.fetch_add(1, Ordering::Relaxed) - base;
            if piece >= pieces {
                break;
            }
            work(piece);
        }
        // Every thread claims in vain once, and none claims for the next phase
        // before all have done so.
        self.base.set(base + pieces + self.state.threads);
        self.barrier();
    }
}

/// Binds a worker to a core of its own, if there are enough cores: the others
/// stay where their caches are.
#[cfg(target_os = "linux")]
fn pin(index: usize, threads: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect::<Vec<_>>();
    if cores.len() >= threads {
        let mut own = CpuSet::new();
        own.set(cores[index]);
        // Elsewhere it works as well, only less evenly.
        let _ = sched_setaffinity(None, &own);
    }
}

#[cfg(not(target_os = "linux"))]
fn pin(_: usize, _: usize) {}

/// How many threads have come to the current barrier, and how many barriers
/// have been passed.
#[derive(Debug, Default)]
struct Barrier {
    arrived: AtomicUsize,
    round: AtomicUsize,
}

fn look_until(mut done: impl FnMut() -> bool) {
    while !(0..LOOKS).any(|_| {
        done() || {
            spin_loop();
            false
        }
    }) {
        // The missing thread may be waiting for this very core.
        thread::yield_now();
    }
}
