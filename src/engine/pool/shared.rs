//! Buffers that the threads of a pool share.

#![allow(unsafe_code)] // buffers shared without locks

use std::cell::UnsafeCell;
use std::ops::Range;

/// A buffer for the threads of a pool: within a phase, every thread writes its own
/// parts, or all threads read.
#[derive(Debug)]
pub(crate) struct Shared<T>(Box<[UnsafeCell<T>]>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(Box::default())
    }
}

// SAFETY: shared access goes through the unsafe functions, whose callers guarantee the
// absence of data races.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// A buffer of `len` copies of `value`.
    pub(crate) fn new(len: usize, value: T) -> Self {
        Self((0..len).map(|_| UnsafeCell::new(value)).collect())
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// A part to read.
    ///
    /// # Safety
    /// No thread may write to the part until the phase ends.
    pub(crate) unsafe fn read(&self, part: Range<usize>) -> &[T] {
        let part = &self.0[part];
        // SAFETY: an `UnsafeCell<T>` has the layout of `T`, the range was
        // checked, and the caller excludes writers.
        unsafe { std::slice::from_raw_parts(part.as_ptr().cast(), part.len()) }
    }

    /// A part to write.
    ///
    /// # Safety
    /// No other thread may read or write the part until the phase ends, and this thread
    /// must have no other view of it.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn write(&self, part: Range<usize>) -> &mut [T] {
        let part = &self.0[part];
        // SAFETY: as in `read`; the caller excludes all other accesses.
        unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(part.as_ptr()), part.len()) }
    }

    /// All of it, to read.
    ///
    /// # Safety
    /// As [`Self::read`].
    pub(crate) unsafe fn read_all(&self) -> &[T] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.read(0..self.len()) }
    }

    /// All of it, to write, for a thread with exclusive access.
    pub(crate) fn get_mut(&mut self) -> &mut [T] {
        let len = self.0.len();
        // SAFETY: as in `read`; `&mut self` excludes all other accesses.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }
}
