//! Buffers that the threads of a pass fill together.

#![allow(unsafe_code)] // what this file is about

use std::cell::UnsafeCell;
use std::ops::Range;

/// A buffer of which, within a phase, every thread writes parts of its
/// own, or all threads read.
#[derive(Debug)]
pub(crate) struct Shared<T>(Box<[UnsafeCell<T>]>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(Box::default())
    }
}

// SAFETY: access goes through the two unsafe functions, whose callers answer for
// the absence of races.
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
    /// Until the phase ends no thread writes to the part.
    pub(crate) unsafe fn read(&self, part: Range<usize>) -> &[T] {
        let part = &self.0[part];
        // SAFETY: an `UnsafeCell<T>` has the layout of `T`, the range was
        // checked, and the caller excludes writers.
        unsafe { std::slice::from_raw_parts(part.as_ptr().cast(), part.len()) }
    }

    /// A part to write.
    ///
    /// # Safety
    /// Until the phase ends no other thread reads or writes the part, and this
    /// thread has no other view of it.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn write(&self, part: Range<usize>) -> &mut [T] {
        let part = &self.0[part];
        // SAFETY: as in `read`; the caller excludes all others.
        unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(part.as_ptr()), part.len()) }
    }

    /// Writes one entry.
    ///
    /// # Safety
    /// As [`Self::write`], of this entry.
    pub(crate) unsafe fn set(&self, at: usize, value: T) {
        // SAFETY: the caller's.
        unsafe { *self.0[at].get() = value };
    }

    /// All of it, to read.
    ///
    /// # Safety
    /// As [`Self::read`].
    pub(crate) unsafe fn read_all(&self) -> &[T] {
        // SAFETY: the caller's.
        unsafe { self.read(0..self.len()) }
    }

    /// All of it, for an owner that shares it with nobody.
    pub(crate) fn get_mut(&mut self) -> &mut [T] {
        let len = self.0.len();
        // SAFETY: as in `read`; `&mut self` excludes all others.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }
}
