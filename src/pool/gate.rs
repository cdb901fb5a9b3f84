//! Who may enter a job, and how many workers are in it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits that count the workers inside.
const INSIDE: u64 = (1 << 24) - 1;
/// Whether more may enter.
const OPEN: u64 = 1 << 24;
/// Where the number of the job begins.
const JOB: u32 = 25;

/// One word, so that nobody enters a job that has just ended.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Gate(AtomicU64);

impl Gate {
    /// Opens it for the next job; what was written before is visible to all who
    /// enter. It is closed, and nobody is inside.
    pub(super) fn open(&self) {
        let last = self.0.load(Ordering::Relaxed) >> JOB;
        self.0.store((last + 1) << JOB | OPEN, Ordering::SeqCst);
    }

    /// The job that can be entered now, if there is one.
    pub(super) fn job(&self) -> Option<u64> {
        let word = self.0.load(Ordering::SeqCst);
        (word & OPEN != 0).then_some(word >> JOB)
    }

    /// Enters a job; false if it is not open.
    pub(super) fn enter(&self, job: u64) -> bool {
        let open = |word: u64| word & OPEN != 0 && word >> JOB == job;
        let one_more = |word| open(word).then_some(word + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).is_ok()
    }

    /// Leaves it; true for the last one inside after it was closed.
    pub(super) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) & (OPEN | INSIDE) == 1
    }

    /// Lets nobody in any more.
    pub(super) fn close(&self) {
        self.0.fetch_and(!OPEN, Ordering::SeqCst);
    }

    /// Whether nobody is inside; what they wrote is then visible.
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::SeqCst) & INSIDE == 0
    }
}
