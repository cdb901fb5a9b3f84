//! What the threads of a pool share, and how workers come and go.
//!
//! A phase ends when its pieces are done, whoever did them: a job waits neither
//! for a worker that has no core nor for one that is waking up. A worker that
//! comes late finds the phases before done and catches up; one that waits for
//! long leaves the job, sleeps outside and comes back when the phase has ended.
//! Only the caller sleeps inside.
//!
//! Nobody sleeps through what it waits for: who goes to sleep says so first and
//! then looks once more, who changes something does so first and then looks for
//! sleepers, all in one order (`SeqCst`).

#![allow(unsafe_code)] // a job outlives its call only as long as workers run it

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
use super::worker::{Job, Worker};

/// How long threads look before they sleep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For the end of a phase.
    pub phase: Duration,
    /// For the next job.
    pub idle: Duration,
}

#[derive(Debug)]
pub(super) struct State {
    patience: Patience,
    gate: Gate,
    job: UnsafeCell<Option<Pointer>>,
    counters: Counters,
    /// Who sleeps or is about to.
    asleep: Box<[AtomicBool]>,
    seats: Box<[Seat]>,
    /// There will be no more jobs.
    stop: AtomicBool,
    /// A thread panicked, so its piece will not be done.
    broken: AtomicBool,
    panic: Mutex<Option<Panic>>,
}

/// What a thread panicked with.
pub(super) type Panic = Box<dyn Any + Send>;

/// A job whose lifetime the pool watches over.
#[derive(Debug, Clone, Copy)]
struct Pointer(*const Job<'static>);

// SAFETY: the job is `Sync`. Its pointer is written while the gate is closed and
// nobody is inside, and read inside.
unsafe impl Sync for State {}
// SAFETY: as above.
unsafe impl Send for State {}

/// What all threads change in every phase, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    /// Pieces of the job that were claimed.
    claimed: AtomicUsize,
    /// Pieces that are done.
    done: AtomicUsize,
    /// The thread that finished pieces, or left, last.
    last: AtomicUsize,
}

/// One thread, seen by the others.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Seat {
    thread: Mutex<Option<Thread>>,
    /// Takes part in no job for now.
    away: AtomicBool,
    pieces: AtomicU64,
    /// Nanoseconds for which the caller waited for this thread.
    held_up: AtomicU64,
}

/// Where a worker is.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The job that it was in last.
    job: u64,
    /// How many pieces of the job must be done before it can go on with it; none
    /// if it is through.
    stuck: Option<usize>,
}

thread_local! {
    static WORKING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a job.
pub(super) fn is_working() -> bool {
    WORKING.get()
}

impl State {
    pub(super) fn new(threads: usize, patience: Patience) -> Self {
        Self {
            patience,
            gate: Gate::default(),
            job: UnsafeCell::new(None),
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

    /// Runs a job together with the workers that come; one caller at a time.
    /// Returns what a thread panicked with.
    pub(super) fn run(&self, job: &Job<'_>) -> Option<Panic> {
        self.counters.claimed.store(0, Relaxed);
        self.counters.done.store(0, Relaxed);
        let pointer: *const Job<'_> = job;
        // SAFETY: only the lifetime changes. This function does not return, and
        // so the job does not end, before every worker has left it.
        let pointer =
            unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(pointer) };
        // SAFETY: the gate is closed and nobody is inside.
        unsafe { *self.job.get() = Some(Pointer(pointer)) };
        self.gate.open();
        self.wake();
        self.take_part(0, job);
        self.gate.close();
        self.wait_as_caller(|| self.gate.is_empty());
        self.broken.store(false, Relaxed);
        self.panic.lock().take()
    }

    /// A worker's life.
    pub(super) fn serve(&self, index: usize) {
        *self.seats[index].thread.lock() = Some(thread::current());
        let mut place = Place { job: 0, stuck: None };
        while let Some(job) = self.wait_for_work(index, place) {
            if !self.gate.enter(job) {
                continue;
            }
            // SAFETY: this thread is inside.
            let pointer = unsafe { *self.job.get() };
            // SAFETY: the job lives until this thread has left.
            let stuck = pointer.and_then(|p| self.take_part(index, unsafe { &*p.0 }));
            place = Place { job, stuck };
            self.counters.last.store(index, Relaxed);
            if self.gate.leave() {
                self.wake();
            }
        }
    }

    /// Waits for a job with something to do; none if there will be none.
    fn wait_for_work(&self, index: usize, place: Place) -> Option<u64> {
        let away = || self.seats[index].away.load(SeqCst);
        let work = || {
            if self.stop.load(SeqCst) {
                return Some(None);
            }
            let job = self.gate.job().filter(|_| !away())?;
            let more = |pieces| self.counters.done.load(SeqCst) >= pieces;
            (job != place.job || place.stuck.is_some_and(more)).then_some(Some(job))
        };
        if place.stuck.is_none() {
            look(self.patience.idle, || away() || work().is_some());
        }
        self.sleep(index, work)
    }

    /// Runs a job on this thread. Returns how many pieces must be done before it
    /// can go on, if it has not come to the end.
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

    /// Claims the next piece before `end`, if there is one. `next` is a piece that
    /// is the next to be claimed or was claimed already; it is moved on.
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

    /// Notes that a thread did so many pieces of the phase that ends with `end`.
    pub(super) fn finish(&self, index: usize, pieces: usize, end: usize) {
        if pieces > 0 {
            self.counters.last.store(index, Relaxed);
            if self.counters.done.fetch_add(pieces, SeqCst) + pieces == end {
                self.wake();
            }
        }
    }

    /// Waits for the end of a phase; false if this thread is to leave the job.
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

    fn wait_as_caller(&self, so: impl Fn() -> bool) {
        if look(self.patience.phase, &so) {
            return;
        }
        let since = Instant::now();
        *self.seats[0].thread.lock() = Some(thread::current());
        self.sleep(0, || so().then_some(()));
        let waited = self.patience.phase + since.elapsed();
        let last = self.counters.last.load(Relaxed);
        self.seats[last].held_up.fetch_add(waited.as_nanos() as u64, Relaxed);
    }

    /// Sleeps until something is found.
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

    /// Wakes all who sleep but are not away.
    fn wake(&self) {
        for (asleep, seat) in self.asleep.iter().zip(&self.seats) {
            if asleep.load(SeqCst) && !seat.away.load(Relaxed) && asleep.swap(false, SeqCst) {
                seat.thread.lock().iter().for_each(Thread::unpark);
            }
        }
    }

    /// Ends the workers' lives.
    pub(super) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.follow(|_| true);
        self.wake();
    }

    /// Lets threads take part or not, between two jobs.
    pub(super) fn follow(&self, has: impl Fn(usize) -> bool) {
        for (index, seat) in self.seats.iter().enumerate() {
            seat.away.store(!has(index), SeqCst);
        }
    }

    /// What the threads did since the last call, between two jobs.
    pub(super) fn records(&self) -> Vec<Record> {
        let record = |seat: &Seat| Record {
            pieces: seat.pieces.swap(0, Relaxed),
            held_up: Duration::from_nanos(seat.held_up.swap(0, Relaxed)),
        };
        self.seats.iter().map(record).collect()
    }
}
