//! The rows for a product, packed in the order in which the kernels read them.
#![allow(unsafe_code)] // parts of shared buffers; each access states its reason

use super::Matrix;
use super::dense::F32;
use super::e4m3;
use super::groups::Groups;
use super::large_blocks::PARTS;
use super::packed::RowForm;
use super::q8::{BLOCK, quantised};
use super::zero_points::MIDDLE_PARTS;
use super::{Chunk, ValueForm};
use bytemuck::Zeroable;

use crate::core::lanes::integers::Integers;
use crate::core::lanes::{Isa, IsaKind, Kernel, LANES};
use crate::engine::pool::Shared;

/// Memory for packed rows. Rows form groups of as many as a kernel processes at once;
/// within a group, the chunks (or quantised blocks) of all rows for the same inputs are
/// adjacent.
#[derive(Debug, Default)]
pub(in super::super) struct PackedRows {
    words: Shared<u32>,
}

/// Packed rows, group by group, followed by anything.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Rows<'a> {
    pub count: usize,
    pub words: &'a [u32],
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
            for_chunks(row(first + member), |chunk: &Chunk| {
                packed[place] = *chunk;
                place += size;
            });
        }
    }
}

/// Cuts a row into chunks of `N` values.
#[inline(always)]
fn for_chunks<const N: usize>(row: &[f32], mut put: impl FnMut(&[f32; N])) {
    let (whole, rest) = row.as_chunks();
    for one in whole {
        put(one);
    }
    if !rest.is_empty() {
        let mut last = [0.0; N];
        last[..rest.len()].copy_from_slice(rest);
        put(&last);
    }
}

impl PackedRows {
    /// Memory for this many words.
    pub(in super::super) fn new(words: usize) -> Self {
        Self { words: Shared::new(words, 0) }
    }

    /// Packs row `row` of `rows` for a product with `matrix`, in every form that it needs, into
    /// the words from `from` on.
    ///
    /// # Safety
    /// No other thread may pack this row, or read any row, until the phase ends.
    pub(in super::super) unsafe fn put(
        &self,
        from: usize,
        matrix: &Matrix,
        (row, rows): (usize, usize),
        values: &[f32],
    ) {
        for form in matrix.forms() {
            let start = from + matrix.words_before(form, rows);
            let group = form.groups.split(rows).find(|&(first, size)| row < first + size);
            let (first, size) = group.unwrap_or((0, 1));
            let mut place = first * form.per_row(matrix.inputs) + row - first;
            let put = |words: &[u32]| {
                let at = start + place * words.len();
                // SAFETY: every row has its own places in every form.
                unsafe { self.words.write(at..at + words.len()) }.copy_from_slice(words);
                place += size;
            };
            pack(matrix, form, values, put);
        }
    }

    /// The packed rows, `count` of them, from a word on.
    ///
    /// # Safety
    /// No thread may pack rows until the phase ends.
    pub(in super::super) unsafe fn view(&self, from: usize, count: usize) -> Rows<'_> {
        // SAFETY: guaranteed by the caller.
        Rows { count, words: unsafe { &self.words.read_all()[from..] } }
    }
}

/// Turns a row into the values of a form.
fn pack(matrix: &Matrix, form: RowForm, values: &[f32], mut put: impl FnMut(&[u32])) {
    match form.form {
        ValueForm::Chunks => for_chunks(values, |chunk: &Chunk| put(bytemuck::cast_slice(chunk))),
        ValueForm::LargeChunks => for_chunks::<{ e4m3::INPUTS }>(values, |chunks| {
            put(bytemuck::cast_slice(chunks));
        }),
        ValueForm::Quants => matrix.isa.run(Quantised { values: values.as_chunks().0, put }),
        ValueForm::Blocks => matrix.isa.run(QuantisedBlocks::<_, 1> { values, put }),
        ValueForm::MiddleBlocks => {
            matrix.isa.run(QuantisedBlocks::<_, MIDDLE_PARTS> { values, put })
        }
        ValueForm::LargeBlocks => matrix.isa.run(QuantisedBlocks::<_, PARTS> { values, put }),
    }
}

/// Quantises a row block by block, for the products of signed bytes.
struct Quantised<'a, P> {
    values: &'a [[f32; BLOCK]],
    put: P,
}

impl<P: FnMut(&[u32])> Kernel for Quantised<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(mut self, _: I) {
        for values in self.values {
            (self.put)(bytemuck::cast_slice(&[quantised::<I::Quants>(values)]));
        }
    }
}

/// Quantises a row `N` blocks at a time.
struct QuantisedBlocks<'a, P, const N: usize> {
    values: &'a [f32],
    put: P,
}

impl<P: FnMut(&[u32]), const N: usize> Kernel for QuantisedBlocks<'_, P, N> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(mut self, _: I) {
        for values in self.values.as_chunks().0.as_chunks::<N>().0 {
            let mut blocks = [Integers::zeroed(); N];
            for n in 0..N {
                blocks[n] = quantised(&values[n]);
            }
            (self.put)(bytemuck::cast_slice(&blocks));
        }
    }
}
