//! The shared state of a pool's threads, the protocol by which workers enter and leave jobs, and
//! one thread's view of a job.
//!
//! A phase ends when its pieces are done, whichever threads did them: a job waits neither for a
//! worker that has lost its core nor for one that is waking up. A worker that enters late finds the
//! earlier phases done and catches up. A worker that waits too long leaves the job, sleeps outside
//! it and re-enters when the phase has ended. Only the caller sleeps inside a job.
//!
//! No wake-up is lost: a thread that goes to sleep first sets its flag and then checks
//! its condition once more; a thread that changes something makes the change first and
//! then checks for sleeping threads. All these accesses have one order (`SeqCst`).

#![allow(unsafe_code)] // erases the lifetime of a job while workers run it

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::gate::Gate;
use super::look::look;
use super::roster::Record;

/// How long threads poll before they sleep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For the end of a phase.
    pub phase: Duration,
    /// For the next job.
    pub idle: Duration,
}

#[derive(Debug)]
pub(super) struct PoolState {
    patience: Patience,
    gate: Gate,
    job: UnsafeCell<Option<Pointer>>,
    /// The number of threads that may take part in the job: the first ones.
    team: AtomicUsize,
    /// Number of jobs begun and ended, from which waiting workers see that more may come.
    signs_of_life: AtomicUsize,
    counters: Counters,
    /// Which threads sleep or are about to.
    asleep: Box<[AtomicBool]>,
    seats: Box<[Seat]>,
    /// Set when there will be no more jobs.
    stop: AtomicBool,
    /// Set when a thread has panicked, so that its piece will not be done.
    broken: AtomicBool,
    panic: Mutex<Option<Panic>>,
}

/// The payload of a thread's panic.
pub(super) type Panic = Box<dyn Any + Send>;

/// A job without its lifetime, which the pool enforces.
#[derive(Debug, Clone, Copy)]
struct Pointer(*const Job<'static>);

// SAFETY: the job is `Sync`. Its pointer is written only while the gate is closed with
// no worker inside, and read only by workers inside.
unsafe impl Sync for PoolState {}
// SAFETY: as above.
unsafe impl Send for PoolState {}

/// The counters that all threads change in every phase, in a separate cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    /// Number of pieces of the job that were claimed.
    claimed: AtomicUsize,
    /// Number of pieces that are done.
    done: AtomicUsize,
    /// The thread that last finished pieces or left the job.
    last: AtomicUsize,
}

/// One thread, as the others see it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Seat {
    thread: Mutex<Option<Thread>>,
    /// Whether it is excluded from jobs for now.
    away: AtomicBool,
    pieces: AtomicU64,
    /// Nanoseconds for which the caller waited for this thread.
    held_up: AtomicU64,
}

/// The progress of a worker.
#[derive(Debug, Clone, Copy)]
struct WorkerProgress {
    /// The number of the last job that it entered.
    job: u64,
    /// The number of pieces of the job that must be done before it can continue, if it left before
    /// the end.
    stuck: Option<usize>,
}

thread_local! {
    static WORKING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a job.
pub(super) fn is_working() -> bool {
    WORKING.get()
}

impl PoolState {
    pub(super) fn new(threads: usize, patience: Patience) -> Self {
        Self {
            patience,
            gate: Gate::default(),
            job: UnsafeCell::new(None),
            team: AtomicUsize::new(threads),
            signs_of_life: AtomicUsize::new(0),
            counters: Counters::default(),
            asleep: (0..threads).map(|_| AtomicBool::new(false)).collect(),
            seats: (0..threads).map(|_| Seat::default()).collect(),
            stop: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            panic: Mutex::new(None),
        }
    }

    pub(super) fn threads(&self) -> usize {
        self.seats.len()
    }

    /// Runs a job on those of the first `team` threads that enter it; one caller at a time. Returns
    /// the payload if a thread panicked.
    pub(super) fn run(&self, team: usize, job: &Job<'_>) -> Option<Panic> {
        self.counters.claimed.store(0, Relaxed);
        self.counters.done.store(0, Relaxed);
        self.team.store(team, SeqCst);
        self.signs_of_life.fetch_add(1, Relaxed);
        if team == 1 {
            self.take_part(0, job);
        } else {
            self.run_together(job);
        }
        self.signs_of_life.fetch_add(1, Relaxed);
        self.broken.store(false, Relaxed);
        self.panic.lock().take()
    }

    fn run_together(&self, job: &Job<'_>) {
        let pointer: *const Job<'_> = job;
        // SAFETY: only the lifetime changes. This function does not return before every
        // worker has left the job, so none uses it beyond its lifetime.
        let pointer =
            unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(pointer) };
        // SAFETY: the gate is closed and no worker is inside.
        unsafe { *self.job.get() = Some(Pointer(pointer)) };
        self.gate.open();
        self.wake();
        self.take_part(0, job);
        self.gate.close();
        self.wait_as_caller(|| self.gate.is_empty());
    }

    /// The main loop of a worker.
    pub(super) fn serve(&self, index: usize) {
        *self.seats[index].thread.lock() = Some(thread::current());
        let mut place = WorkerProgress { job: 0, stuck: None };
        while let Some(job) = self.wait_for_work(index, place) {
            if !self.gate.enter(job) {
                continue;
            }
            // SAFETY: this thread is inside, so nothing writes the pointer.
            let pointer = unsafe { *self.job.get() };
            // SAFETY: the job lives until this thread has left it.
            let stuck = pointer.and_then(|p| self.take_part(index, unsafe { &*p.0 }));
            place = WorkerProgress { job, stuck };
            self.counters.last.store(index, Relaxed);
            if self.gate.leave() {
                self.wake();
            }
        }
    }

    /// Waits for a job with work for this worker; `None` if there will be no more jobs.
    fn wait_for_work(&self, index: usize, place: WorkerProgress) -> Option<u64> {
        let excluded = || self.seats[index].away.load(SeqCst);
        let away = || excluded() || index >= self.team.load(SeqCst);
        let work = || {
            if self.stop.load(SeqCst) {
                return Some(None);
            }
            let job = self.gate.job().filter(|_| !away())?;
            let more = |pieces| self.counters.done.load(SeqCst) >= pieces;
            (job != place.job || place.stuck.is_some_and(more)).then_some(Some(job))
        };
        if place.stuck.is_none() {
            let idle = || {
                let seen = self.signs_of_life.load(Relaxed);
                let alive = || self.signs_of_life.load(Relaxed) != seen;
                look(self.patience.idle, || alive() || excluded() || work().is_some())
            };
            while idle() && !excluded() && work().is_none() {}
        }
        self.sleep(index, work)
    }

    /// Runs a job on this thread. If it does not reach the end, returns the number of pieces that
    /// must be done before the thread can continue.
    fn take_part(&self, index: usize, job: &Job<'_>) -> Option<usize> {
        let worker = Worker::new(index, self);
        WORKING.set(true);
        let ended = panic::catch_unwind(AssertUnwindSafe(|| job(&worker)));
        WORKING.set(false);
        let (seen, did) = worker.progress();
        self.seats[index].pieces.fetch_add(did, Relaxed);
        match ended {
            Ok(Ok(())) => None,
            Ok(Err(_)) => Some(seen),
            Err(panic) => {
                self.panic.lock().get_or_insert(panic);
                self.broken.store(true, SeqCst);
                self.wake();
                None
            }
        }
    }

    /// Claims the next piece before `end`, if there is one. `next` must not be larger
    /// than the next unclaimed piece; it is advanced.
    pub(super) fn claim(&self, next: &mut usize, end: usize) -> Option<usize> {
        while *next < end {
            match self.counters.claimed.compare_exchange(*next, *next + 1, Relaxed, Relaxed) {
                Ok(piece) => {
                    *next += 1;
                    return Some(piece);
                }
                Err(now) => *next = now,
            }
        }
        None
    }

    /// Records that a thread did `pieces` pieces of the phase that ends at piece `end`.
    pub(super) fn finish(&self, index: usize, pieces: usize, end: usize) {
        if pieces > 0 {
            self.counters.last.store(index, Relaxed);
            if self.counters.done.fetch_add(pieces, SeqCst) + pieces == end {
                self.wake();
            }
        }
    }

    /// Waits for the end of a phase; false if this thread must leave the job.
    pub(super) fn wait_for_phase(&self, index: usize, end: usize) -> bool {
        let broken = || self.broken.load(SeqCst);
        let over = || self.counters.done.load(SeqCst) >= end || broken();
        match index {
            0 => self.wait_as_caller(over),
            _ => {
                if !look(self.patience.phase, over) {
                    return false;
                }
            }
        }
        !broken()
    }

    fn wait_as_caller(&self, condition: impl Fn() -> bool) {
        if look(self.patience.phase, &condition) {
            return;
        }
        let since = Instant::now();
        *self.seats[0].thread.lock() = Some(thread::current());
        self.sleep(0, || condition().then_some(()));
        let waited = self.patience.phase + since.elapsed();
        let last = self.counters.last.load(Relaxed);
        self.seats[last].held_up.fetch_add(waited.as_nanos() as u64, Relaxed);
    }

    /// Sleeps until `find` returns a value.
    fn sleep<T>(&self, index: usize, find: impl Fn() -> Option<T>) -> T {
        loop {
            self.asleep[index].store(true, SeqCst);
            if let Some(found) = find() {
                self.asleep[index].store(false, Relaxed);
                return found;
            }
            thread::park();
        }
    }

    /// Wakes all sleeping threads that may take part in the job.
    fn wake(&self) {
        let team = self.team.load(Relaxed);
        for (asleep, seat) in self.asleep.iter().zip(&self.seats).take(team) {
            if asleep.load(SeqCst)
                && !seat.away.load(Relaxed)
                && asleep.swap(false, SeqCst)
                && let Some(thread) = seat.thread.lock().as_ref()
            {
                thread.unpark();
            }
        }
    }

    /// Makes all workers end.
    pub(super) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.team.store(self.threads(), SeqCst);
        self.follow(|_| true);
        self.wake();
    }

    /// Sets which threads take part; called between two jobs.
    pub(super) fn follow(&self, has: impl Fn(usize) -> bool) {
        for (index, seat) in self.seats.iter().enumerate() {
            seat.away.store(!has(index), SeqCst);
        }
    }

    /// The threads' records since the last call; called between two jobs.
    pub(super) fn records(&self) -> Vec<Record> {
        let record = |seat: &Seat| Record {
            pieces: seat.pieces.swap(0, Relaxed),
            held_up: Duration::from_nanos(seat.held_up.swap(0, Relaxed)),
        };
        self.seats.iter().map(record).collect()
    }
}

/// The function that every thread runs.
pub type Job<'a> = dyn Fn(&Worker<'_>) -> Result<(), Away> + Sync + 'a;

/// The thread must leave the job: it has waited too long and may enter again, or
/// another thread has panicked. The job must return this to the pool.
#[derive(Debug)]
pub struct Away(());

/// One thread's view of a running job.
#[derive(Debug)]
pub struct Worker<'a> {
    index: usize,
    state: &'a PoolState,
    /// Number of pieces of all phases so far.
    end: Cell<usize>,
    /// Not larger than the next unclaimed piece.
    next: Cell<usize>,
    /// Number of pieces that this thread finished.
    did: Cell<u64>,
}

impl<'a> Worker<'a> {
    fn new(index: usize, state: &'a PoolState) -> Self {
        Self { index, state, end: Cell::new(0), next: Cell::new(0), did: Cell::new(0) }
    }

    /// Number of this thread, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of threads that may take part.
    pub fn threads(&self) -> usize {
        self.state.team.load(Relaxed)
    }

    /// Shares the pieces `0..pieces` of a phase among the threads in the job. Every thread that
    /// runs the job must call this with the same number; each piece is done once. When this returns
    /// `Ok`, all pieces are done, and everything that was written in them is visible. Code between
    /// two calls must not write to anything that other threads see.
    ///
    /// # Errors
    /// If this thread must leave the job: return the error at once.
    pub fn share(&self, pieces: usize, mut work: impl FnMut(usize)) -> Result<(), Away> {
        let base = self.end.get();
        let end = base + pieces;
        self.end.set(end);
        let mut did = 0;
        let mut next = self.next.get();
        while let Some(piece) = self.state.claim(&mut next, end) {
            work(piece - base);
            did += 1;
        }
        self.next.set(next);
        self.did.set(self.did.get() + did as u64);
        self.state.finish(self.index, did, end);
        if self.state.wait_for_phase(self.index, end) { Ok(()) } else { Err(Away(())) }
    }

    /// The number of pieces of all phases that this thread has begun, and the number that it
    /// finished itself.
    fn progress(&self) -> (usize, u64) {
        (self.end.get(), self.did.get())
    }
}
