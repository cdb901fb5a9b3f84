//! Admission of workers to a job, and the number of workers inside.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits that count the workers inside.
const INSIDE: u64 = (1 << 24) - 1;
/// The bit that is set while workers may enter.
const OPEN: u64 = 1 << 24;
/// The lowest bit of the job's number.
const JOB: u32 = 25;

/// One atomic word, so that no worker can enter a job that has just ended.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Gate(AtomicU64);

impl Gate {
    /// Opens the gate for the next job; everything written before is visible to the
    /// workers that enter. The gate must be closed, with no worker inside.
    pub(super) fn open(&self) {
        let last = self.0.load(Ordering::Relaxed) >> JOB;
        self.0.store((last + 1) << JOB | OPEN, Ordering::SeqCst);
    }

    /// The number of the job that can be entered now, if there is one.
    pub(super) fn job(&self) -> Option<u64> {
        let word = self.0.load(Ordering::SeqCst);
        (word & OPEN != 0).then_some(word >> JOB)
    }

    /// Enters a job; false if the gate is not open for it.
    pub(super) fn enter(&self, job: u64) -> bool {
        let open = |word: u64| word & OPEN != 0 && word >> JOB == job;
        let one_more = |word| open(word).then_some(word + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).is_ok()
    }

    /// Leaves the job; true for the last worker that leaves after the gate was closed.
    pub(super) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) & (OPEN | INSIDE) == 1
    }

    /// Closes the gate: no more workers can enter.
    pub(super) fn close(&self) {
        self.0.fetch_and(!OPEN, Ordering::SeqCst);
    }

    /// Whether no worker is inside; everything that workers wrote inside is then
    /// visible.
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::SeqCst) & INSIDE == 0
    }
}
