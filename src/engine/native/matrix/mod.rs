//! Weight matrices, packed for kernels that read each weight once for all rows.
//!
//! Sixteen outputs form a tile. A tile's weights are stored input by input, so that a
//! kernel streams them and holds the sums of sixteen outputs in one vector per row.
//! Every output is one chain of fused multiply-adds over the inputs in ascending order,
//! for any number of rows, tiles or threads.

mod claims;
mod dense;
mod e4m3;
mod groups;
mod integers;
mod large_blocks;
mod packed;
mod packing;
mod product;
mod q8;
mod rows;
mod small_blocks;
mod storage;
mod zero_points;

pub(super) use claims::Claims;
pub(super) use packed::Matrix;
pub(super) use packing::Filling;
pub(super) use product::{CacheTiles, Finish, Sums, TileLines, multiply, multiply_together};
pub(super) use rows::{PackedRows, Rows, in_groups};
pub(super) use storage::WeightStorage;

use self::groups::Groups;

use bytemuck::Pod;

use crate::core::lanes::{Isa, IsaKind, LANES};

/// Sixteen values of a row, padded with zeros at its end.
pub(super) type Chunk = [f32; LANES];

/// A way to store weights, and the arithmetic that goes with it. The constants are by default those
/// of blocks, which are computed one tile at a time: unpacking their integers takes the registers.
trait StorageFormat {
    /// A tile's weights for the next [`Self::INPUTS`] inputs.
    type Step: Pod + Send;
    /// One row's values for the inputs of [`Self::STEPS`] steps.
    type Value<I: Isa>: Pod;
    /// What these values are.
    const FORM: ValueForm;
    /// Inputs per step.
    const INPUTS: usize;
    /// Steps per value.
    const STEPS: usize = 1;
    /// The groups of rows on AVX2.
    const AVX2_GROUPS: Groups = Groups::even(6);
    /// The groups of rows on AVX2 with VNNI.
    const VNNI_GROUPS: Groups = Groups::even(8);
    /// The maximum numbers of rows for which four tiles, and two tiles, are computed
    /// side by side with 32 registers; with more rows their sums do not fit.
    const MOST_ROWS: [usize; 2] = [0, 0];
    /// The maximum number of rows for which two tiles are computed side by side on AVX2.
    const AVX2_PAIRED_ROWS: usize = 0;
    /// How far ahead weights are prefetched on AVX2, in bytes.
    const AVX2_AHEAD: usize = 4096;

    /// The weights of one lane of a step, as the arithmetic uses them.
    fn unpack(isa: IsaKind, step: &Self::Step, lane: usize) -> impl Iterator<Item = f32>;

    /// Adds one step, the `at`-th of the values, to the sums of `T` tiles and `M`
    /// rows.
    fn step<I: Isa, const M: usize, const T: usize>(
        isa: I,
        weights: [&Self::Step; T],
        values: &[Self::Value<I>; M],
        at: usize,
        sums: &mut [[I::F; M]; T],
    );
}

/// A way to store weights that are given as numbers.
trait NumberFormat: StorageFormat {
    /// Sets the weights of a lane, which must be zero, for the inputs of one step, or for fewer at
    /// the end of a row.
    fn put_numbers(isa: IsaKind, step: &mut Self::Step, lane: usize, weights: &[f32]);
}

/// A way to store weights that are given as they are stored; a block, or as many numbers as a step
/// has inputs, becomes a lane of a step.
trait BlockFormat: StorageFormat {
    /// Sets the weights of a lane, which must be zero.
    fn put(step: &mut Self::Step, lane: usize, block: &[u8]);
}

/// What the values of a row are for a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueForm {
    /// Chunks of f32.
    Chunks,
    /// 128 values of f32 at a time, padded with zeros at the end of a row.
    LargeChunks,
    /// Quantised blocks, in the form that [`crate::core::lanes::Isa::dot`] takes.
    Quants,
    /// Quantised blocks.
    Blocks,
    /// Four quantised blocks at a time.
    MiddleBlocks,
    /// Eight quantised blocks at a time.
    LargeBlocks,
}
