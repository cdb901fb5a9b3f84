//! The rows for a product, packed in the order in which the kernels read them.
#![allow(unsafe_code)] // parts of shared buffers; each access states its reason

use super::Matrix;
use super::dense::F32;
use super::groups::Groups;
use super::packed::Input;
use super::q8::{BLOCK, Q8Block};
use crate::lanes::{Isa, IsaKind, Kernel, LANES};
use crate::pool::Shared;

/// Sixteen values of a row, padded with zeros at its end.
pub(in super::super) type Chunk = [f32; LANES];

/// Memory for packed rows. Rows form groups of as many as a kernel processes at once;
/// within a group, the chunks (or blocks) of all rows for the same inputs are adjacent.
#[derive(Debug, Default)]
pub(in super::super) struct PackedRows {
    /// For dense weights.
    chunks: Shared<Chunk>,
    /// For quantised weights.
    blocks: Shared<Q8Block>,
}

/// Packed rows, group by group.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Rows<'a> {
    pub rows: usize,
    pub chunks: &'a [Chunk],
    pub blocks: &'a [Q8Block],
}

/// Packs `count` rows of `width` values for a product with tiles of f32.
pub(in super::super) fn in_groups<'a>(
    isa: IsaKind,
    (count, width): (usize, usize),
    packed: &mut Vec<Chunk>,
    row: impl Fn(usize) -> &'a [f32],
) {
    let chunks = width.div_ceil(LANES);
    packed.resize(count * chunks, [0.0; LANES]);
    for (first, size) in Groups::new::<F32>(isa).split(count) {
        for member in 0..size {
            let mut place = first * chunks + member;
            for_chunks(row(first + member), |chunk| {
                packed[place] = *chunk;
                place += size;
            });
        }
    }
}

/// Cuts a row into chunks.
#[inline(always)]
fn for_chunks(row: &[f32], mut put: impl FnMut(&Chunk)) {
    let (whole, rest) = row.as_chunks();
    whole.iter().for_each(&mut put);
    if !rest.is_empty() {
        let mut last = [0.0; LANES];
        last[..rest.len()].copy_from_slice(rest);
        put(&last);
    }
}

impl PackedRows {
    /// Memory for `rows` rows of `width` values.
    pub(in super::super) fn new(rows: usize, width: usize) -> Self {
        Self {
            chunks: Shared::new(rows * width.div_ceil(LANES), [0.0; LANES]),
            blocks: Shared::new(rows * width.div_ceil(BLOCK), Q8Block::default()),
        }
    }

    /// Packs row `row` of `rows` for a product with `matrix`.
    ///
    /// # Safety
    /// No other thread may pack this row, or read any row, until the phase ends.
    pub(in super::super) unsafe fn put(
        &self,
        isa: IsaKind,
        matrix: &Matrix,
        (row, rows): (usize, usize),
        values: &[f32],
    ) {
        let group = matrix.groups(isa).split(rows).find(|&(first, size)| row < first + size);
        let (first, size) = group.unwrap_or((0, 1));
        match matrix.input() {
            Input::Chunks(count) => {
                let mut place = first * count + row - first;
                for_chunks(values, |chunk| {
                    // SAFETY: every row has its own places.
                    unsafe { self.chunks.set(place, *chunk) };
                    place += size;
                });
            }
            Input::Blocks(count) => {
                let (values, _) = values.as_chunks();
                let place = |i: usize| first * count + i * size + row - first;
                // SAFETY: every row has its own places.
                isa.run(Quantised { values, put: |i, b| unsafe { self.blocks.set(place(i), b) } });
            }
        }
    }

    /// The packed rows.
    ///
    /// # Safety
    /// No thread may pack rows until the phase ends.
    pub(in super::super) unsafe fn view(&self, matrix: &Matrix, rows: usize) -> Rows<'_> {
        let (chunks, blocks) = match matrix.input() {
            Input::Chunks(count) => (rows * count, 0),
            Input::Blocks(count) => (0, rows * count),
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            Rows { rows, chunks: self.chunks.read(0..chunks), blocks: self.blocks.read(0..blocks) }
        }
    }
}

/// Quantises a row block by block.
struct Quantised<'a, P> {
    values: &'a [[f32; BLOCK]],
    put: P,
}

impl<P: FnMut(usize, Q8Block)> Kernel for Quantised<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(mut self, _: I) {
        for (i, values) in self.values.iter().enumerate() {
            (self.put)(i, Q8Block::quantise(values));
        }
    }
}
