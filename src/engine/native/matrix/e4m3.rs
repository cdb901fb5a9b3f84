//! Weights stored as floating-point numbers of 8 bits, with an f32 scale per 128 inputs; the
//! arithmetic is f32.
//!
//! The products within a block are one chain of fused multiply-adds that begins at zero, and the
//! blocks, times their scales, are another one. So each weight is multiplied by its scale once for
//! all inputs of a block, and no value of a row is rounded.

use bytemuck::{Pod, Zeroable};

use super::groups::Groups;
use super::{BlockFormat, StorageFormat, ValueForm};
use crate::core::lanes::{E4M3_STEP, Isa, IsaKind, LANES};
use crate::engine::blocks::{E4M3_LENGTH, E4m3Block, e4m3_number};

/// Inputs of a block.
pub(super) const INPUTS: usize = E4M3_LENGTH;

/// One byte per weight and four bytes per block.
pub(super) struct E4m3;

/// The weights of sixteen outputs for 128 inputs.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Tile {
    /// Of what [`Isa::load_e4m3`] gives.
    scales: [f32; LANES],
    weights: [[u8; LANES]; INPUTS],
}

impl BlockFormat for E4m3 {
    fn put(tile: &mut Tile, lane: usize, block: &[u8]) {
        let Some(block) = E4m3Block::parse(block) else { return };
        // Exact: the scale times 448 is finite.
        tile.scales[lane] = block.scale * E4M3_STEP;
        for (weights, &weight) in tile.weights.iter_mut().zip(block.weights) {
            weights[lane] = weight;
        }
    }
}

impl StorageFormat for E4m3 {
    type Step = Tile;
    type Value<I: Isa> = [f32; INPUTS];
    const FORM: ValueForm = ValueForm::LargeChunks;
    const INPUTS: usize = INPUTS;
    // The sums of a block take the registers that those of f16 take.
    const AVX2_GROUPS: Groups = Groups::of(6);
    const VNNI_GROUPS: Groups = Self::AVX2_GROUPS;
    const MOST_ROWS: [usize; 2] = [6, 14];
    const AVX2_PAIRED_ROWS: usize = 2;

    fn unpack(_: IsaKind, tile: &Tile, lane: usize) -> impl Iterator<Item = f32> {
        let scale = tile.scales[lane];
        tile.weights.iter().map(move |weights| scale * (e4m3_number(weights[lane]) / E4M3_STEP))
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const T: usize>(
        isa: I,
        weights: [&Tile; T],
        values: &[[f32; INPUTS]; M],
        _at: usize,
        sums: &mut [[I::F; M]; T],
    ) {
        let mut block = [[isa.splat(0.0); M]; T];
        #[allow(clippy::needless_range_loop)] // `input` indexes weights and values
        for input in 0..INPUTS {
            let mut loaded = [isa.splat(0.0); T];
            for t in 0..T {
                loaded[t] = isa.load_e4m3(&weights[t].weights[input]);
            }
            // Row by row: one register holds a value until all tiles have used it.
            for m in 0..M {
                let value = isa.splat(values[m][input]);
                for t in 0..T {
                    block[t][m] = isa.fma(loaded[t], value, block[t][m]);
                }
            }
        }
        for t in 0..T {
            let scales = isa.load(&weights[t].scales);
            for m in 0..M {
                sums[t][m] = isa.fma(block[t][m], scales, sums[t][m]);
            }
        }
    }
}
