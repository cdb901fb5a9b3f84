//! The rows on their way to a product, packed as the kernels read them.
#![allow(unsafe_code)] // parts of shared buffers, each with its reason

use super::Matrix;
use super::packed::Input;
use super::product::groups;
use super::q8::{BLOCK, Block};
use crate::lanes::{Isa, IsaKind, Kernel};
use crate::pool::Shared;

/// Memory for packed rows: within a group of rows, the values of all of them for
/// one input stand together.
#[derive(Debug, Default)]
pub(in super::super) struct PackedRows {
    /// For dense weights.
    dense: Shared<f32>,
    /// For quantised weights.
    blocks: Shared<Block>,
}

/// Packed rows, group by group.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Rows<'a> {
    pub rows: usize,
    pub dense: &'a [f32],
    pub blocks: &'a [Block],
}

impl PackedRows {
    /// Memory for so many rows of so many values.
    pub(in super::super) fn new(rows: usize, width: usize) -> Self {
        Self {
            dense: Shared::new(rows * width.next_multiple_of(2), 0.0),
            blocks: Shared::new(rows * width.div_ceil(BLOCK), Block::default()),
        }
    }

    /// Packs row `row` of `rows` for a product with `matrix`; `values` may be
    /// filled up with zeros.
    ///
    /// # Safety
    /// Until the next barrier no other thread packs this row, nor reads any.
    pub(in super::super) unsafe fn put(
        &self,
        isa: IsaKind,
        matrix: &Matrix,
        (row, rows): (usize, usize),
        values: &mut Vec<f32>,
    ) {
        let group = groups(isa, rows).find(|&(first, size)| row < first + size);
        let (first, size) = group.unwrap_or((0, 1));
        let place = |steps: usize, step: usize| first * steps + step * size + row - first;
        match matrix.input() {
            Input::Dense(steps) => {
                values.resize(steps, 0.0);
                for (step, &value) in values.iter().enumerate() {
                    // SAFETY: every row has places of its own.
                    unsafe { self.dense.set(place(steps, step), value) };
                }
            }
            Input::Blocks(steps) => {
                for (step, values) in values.as_chunks().0.iter().enumerate() {
                    let block = isa.run(Quantised(values));
                    // SAFETY: every row has places of its own.
                    unsafe { self.blocks.set(place(steps, step), block) };
                }
            }
        }
    }

    /// The packed rows.
    ///
    /// # Safety
    /// Until the next barrier nobody packs.
    pub(in super::super) unsafe fn view(&self, matrix: &Matrix, rows: usize) -> Rows<'_> {
        let (dense, blocks) = match matrix.input() {
            Input::Dense(steps) => (rows * steps, 0),
            Input::Blocks(steps) => (0, rows * steps),
        };
        // SAFETY: the caller's.
        unsafe {
            Rows { rows, dense: self.dense.read(0..dense), blocks: self.blocks.read(0..blocks) }
        }
    }
}

struct Quantised<'a>(&'a [f32; BLOCK]);

impl Kernel for Quantised<'_> {
    type Output = Block;

    #[inline(always)]
    fn run<I: Isa>(self, _: I) -> Block {
        Block::quantise(self.0)
    }
}
