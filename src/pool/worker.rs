//! One thread's view of a job.

use std::cell::Cell;

use super::state::State;

/// What the threads run: each of them calls the same function.
pub type Job<'a> = dyn Fn(&Worker<'_>) -> Result<(), Away> + Sync + 'a;

/// The thread must leave the job: it has waited too long and may enter again, or
/// another thread has panicked. The job must return this to the pool.
#[derive(Debug)]
pub struct Away(());

/// One thread's view of a running job.
#[derive(Debug)]
pub struct Worker<'a> {
    index: usize,
    state: &'a State,
    /// Number of pieces of all phases so far.
    end: Cell<usize>,
    /// Not larger than the next unclaimed piece.
    next: Cell<usize>,
    /// Number of pieces that this thread did.
    did: Cell<u64>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(index: usize, state: &'a State) -> Self {
        Self { index, state, end: Cell::new(0), next: Cell::new(0), did: Cell::new(0) }
    }

    /// Number of this thread, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of threads that may take part.
    pub fn threads(&self) -> usize {
        self.state.threads()
    }

    /// Shares the pieces `0..pieces` of a phase among the threads in the job. Every
    /// thread that runs the job must call this with the same number; each piece is done
    /// once. When this returns `Ok`, all pieces are done, and everything that was
    /// written in them is visible. Code between two calls must not write to anything
    /// that other threads see.
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

    /// The number of pieces of all phases that this thread has begun, and how many of
    /// them it did.
    pub(super) fn progress(&self) -> (usize, u64) {
        (self.end.get(), self.did.get())
    }
}
