//! Weights stored as blocks of 32 signed bytes with an f16 scale (`Q8_0`).
//!
//! The values of a row are quantised in the same blocks. Products within a block are
//! exact in 32-bit integers; the blocks are summed in one chain of f32.

use bytemuck::{Pod, Zeroable};

use super::StorageFormat;
use super::groups::Groups;
use crate::lanes::{Bytes, Isa, LANES, Signed, math};

pub(super) use crate::model::options::{BLOCK, Q8_LEVELS};

/// Added to a weight so that it is stored unsigned, as the processor's dot product
/// requires.
const OFFSET: i32 = 128;

/// One byte per weight and two bytes per block.
pub(super) struct Q8;

/// The weights of sixteen outputs for 32 inputs.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Tile {
    scales: [u16; LANES],
    quants: Bytes,
}

/// One row's values for 32 inputs.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Q8Block {
    quants: Signed,
    scale: f32,
}

/// Adding this to a number between −2²² and 2²² leaves the nearest integer, ties to
/// even, in the lowest bits.
const ROUND: f32 = 12_582_912.0;

impl Q8Block {
    /// Quantises 32 values: their largest magnitude becomes 127. If any value is not
    /// finite, the scale is NaN.
    #[inline(always)]
    pub(super) fn quantise(values: &[f32; BLOCK]) -> Self {
        let (mut largest, mut poison) = ([0.0f32; LANES], [0.0f32; LANES]);
        for part in values.as_chunks::<LANES>().0 {
            for i in 0..LANES {
                let magnitude = part[i].abs();
                largest[i] = if magnitude > largest[i] { magnitude } else { largest[i] };
                poison[i] += part[i] * 0.0;
            }
        }
        let scale = math::largest_of(largest) / 127.0 + math::sum_of(poison);
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        let mut quants = [0i8; BLOCK];
        for i in 0..BLOCK {
            quants[i] = (values[i] * inverse + ROUND).to_bits() as i8;
        }
        let mut total = 0;
        for quant in quants {
            total += i32::from(quant);
        }
        let quants = Signed { quants: bytemuck::cast(quants), correction: -OFFSET * total };
        Self { quants, scale }
    }
}

impl StorageFormat for Q8 {
    type Step = Tile;
    type Value = Q8Block;
    const INPUTS: usize = BLOCK;
    const STEPS: usize = 1;
    // Eight lanes at a time, so that one register per row is enough.
    const AVX2_GROUPS: Groups = Groups::even(8);
    // One tile at a time: its integer sums already keep the processor busy.
    const MOST_ROWS: [usize; 2] = [0, 0];

    fn pack(rows: [&[f32]; LANES]) -> Tile {
        let largest = |row: &[f32]| row.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let scales = rows.map(|row| largest(row) / Q8_LEVELS);
        let quants = std::array::from_fn(|j| {
            std::array::from_fn(|lane| {
                // Uses the scale before it is rounded to f16, as in GGUF files.
                let inverse = if scales[lane] > 0.0 { 1.0 / scales[lane] } else { 0.0 };
                std::array::from_fn(|k| {
                    ((rows[lane][4 * j + k] * inverse).round() as i32 + OFFSET) as u8
                })
            })
        });
        Tile { scales: scales.map(|scale| half::f16::from_f32(scale).to_bits()), quants }
    }

    fn unpack(step: &Tile, lane: usize) -> impl Iterator<Item = f32> {
        let scale = half::f16::from_bits(step.scales[lane]).to_f32();
        let quants = step.quants.iter().flat_map(move |four| four[lane]);
        quants.map(move |quant| (i32::from(quant) - OFFSET) as f32 * scale)
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const T: usize>(
        isa: I,
        weights: [&Tile; T],
        values: &[Q8Block; M],
        _at: usize,
        sums: &mut [[I::F; M]; T],
    ) {
        let mut quants = [&values[0].quants; M];
        for m in 0..M {
            quants[m] = &values[m].quants;
        }
        for t in 0..T {
            let scales = isa.load_f16(&weights[t].scales);
            let products = isa.dot(&weights[t].quants, quants);
            for m in 0..M {
                let products = isa.mul(isa.to_f32(products[m]), isa.splat(values[m].scale));
                sums[t][m] = isa.fma(products, scales, sums[t][m]);
            }
        }
    }
}
