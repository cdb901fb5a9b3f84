//! The packed weights of a model, in one piece of memory.
//!
//! One piece instead of one per matrix, so that large pages can hold small
//! matrices too.

use std::io;
use std::ops::Range;

use bytemuck::Pod;
use memmap2::{Mmap, MmapMut};

use crate::core::error::Error;

/// Parts begin at multiples of this: a cache line.
const ALIGN: usize = 64;

/// The finished weights.
#[derive(Debug)]
pub(super) struct Memory(Mmap);

/// Memory being filled.
#[derive(Debug)]
pub(super) struct Builder {
    map: MmapMut,
}

/// A piece of memory being filled.
#[derive(Debug)]
pub(super) struct Piece<'m> {
    /// Where the rest of it begins.
    from: usize,
    rest: &'m mut [u8],
}

/// The bytes of an array in the memory.
#[derive(Debug)]
pub(super) struct Part(Range<usize>);

/// Bytes that an array takes in the memory.
pub(super) fn bytes_of<T>(len: usize) -> usize {
    (len * size_of::<T>()).next_multiple_of(ALIGN)
}

impl Builder {
    /// Memory of `bytes` bytes.
    pub(super) fn new(bytes: usize) -> Result<Self, Error> {
        let fail = |e| {
            Error::engine(format!(
                "cannot allocate {bytes} bytes for weights: {e} (a smaller dtype such as q8_0, or \
                 --dtype q8_0, takes less)"
            ))
        };
        Ok(Self { map: large_pages(bytes).map_err(fail)? })
    }

    /// Pieces of these sizes, one after the other, which the memory consists of.
    pub(super) fn pieces(&mut self, sizes: &[usize]) -> Vec<Piece<'_>> {
        let (mut rest, mut from) = (&mut self.map[..], 0);
        let mut pieces = Vec::with_capacity(sizes.len());
        for &size in sizes {
            let (piece, after) = rest.split_at_mut(size);
            pieces.push(Piece { from, rest: piece });
            (rest, from) = (after, from + size);
        }
        pieces
    }

    /// The memory, from now on only read.
    pub(super) fn finish(self) -> Result<Memory, Error> {
        let fail =
            |e| Error::engine(format!("cannot make the memory of the weights read-only: {e}"));
        self.map.make_read_only().map(Memory).map_err(fail)
    }
}

impl<'m> Piece<'m> {
    /// The next array, to be filled.
    pub(super) fn take<T: Pod>(&mut self, len: usize) -> (Part, &'m mut [T]) {
        let bytes = len * size_of::<T>();
        let (array, rest) = std::mem::take(&mut self.rest).split_at_mut(bytes_of::<T>(len));
        let part = Part(self.from..self.from + bytes);
        (self.from, self.rest) = (self.from + array.len(), rest);
        (part, bytemuck::cast_slice_mut(&mut array[..bytes]))
    }
}

impl Part {
    /// Number of bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl Memory {
    /// The array in a part, which must be of this type.
    pub(super) fn get<T: Pod>(&self, part: &Part) -> &[T] {
        bytemuck::cast_slice(&self.0[part.0.clone()])
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
