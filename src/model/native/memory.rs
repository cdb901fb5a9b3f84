//! The packed weights of a model, in one piece of memory.
//!
//! One piece instead of one per matrix, so that large pages can hold small
//! matrices too.

use std::io;

use bytemuck::Pod;
use memmap2::{Mmap, MmapMut};

use crate::error::Error;

/// Parts begin at multiples of this: a cache line.
const ALIGN: usize = 64;

/// The finished weights.
#[derive(Debug)]
pub(super) struct Memory(Mmap);

/// Memory being filled.
#[derive(Debug)]
pub(super) struct Builder {
    map: MmapMut,
    used: usize,
}

/// Where an array lies in the memory.
#[derive(Debug)]
pub(super) struct Part {
    at: usize,
    bytes: usize,
}

/// Bytes that an array takes in the memory.
pub(super) fn bytes_of<T>(len: usize) -> usize {
    (len * size_of::<T>()).next_multiple_of(ALIGN)
}

impl Builder {
    /// Memory for parts of `bytes` bytes in all.
    pub(super) fn new(bytes: usize) -> Result<Self, Error> {
        let fail = |e| Error::engine(format!("cannot allocate {bytes} bytes for weights: {e}"));
        Ok(Self { map: large_pages(bytes).map_err(fail)?, used: 0 })
    }

    /// The next array, to be filled.
    pub(super) fn take<T: Pod>(&mut self, len: usize) -> (Part, &mut [T]) {
        let part = Part { at: self.used, bytes: len * size_of::<T>() };
        let range = part.range();
        self.used += bytes_of::<T>(len);
        (part, bytemuck::cast_slice_mut(&mut self.map[range]))
    }

    /// The memory, from now on only read.
    pub(super) fn finish(self) -> Result<Memory, Error> {
        debug_assert_eq!(self.used.max(1), self.map.len(), "the size was computed before");
        let fail =
            |e| Error::engine(format!("cannot make the memory of the weights read-only: {e}"));
        self.map.make_read_only().map(Memory).map_err(fail)
    }
}

impl Part {
    /// Bytes of the array.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn range(&self) -> std::ops::Range<usize> {
        self.at..self.at + self.bytes
    }
}

impl Memory {
    /// The array in a part, which must be of this type.
    pub(super) fn get<T: Pod>(&self, part: &Part) -> &[T] {
        bytemuck::cast_slice(&self.0[part.range()])
    }
}

/// At least `bytes` bytes of zeros in large pages: with pages of 4 KiB, reading all
/// weights in sequence would spend its time on page lookups.
pub(crate) fn large_pages(bytes: usize) -> io::Result<MmapMut> {
    let map = MmapMut::map_anon(bytes.max(1))?;
    #[cfg(target_os = "linux")]
    // Without large pages everything works, only slower.
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}
