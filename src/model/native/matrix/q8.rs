//! Weights stored as blocks of 32 signed bytes with an f16 scale (`Q8_0`).
//!
//! The values of a row are quantised in the same blocks. Products within a block
//! are exact in 32-bit integers; over the blocks runs one chain of f32.

use bytemuck::{Pod, Zeroable};

use super::Storage;
use crate::lanes::{Isa, LANES};

pub(super) use crate::model::options::BLOCK;

/// Added to a weight so that it is stored unsigned, as the dot product of the
/// processor wants it.
const OFFSET: i32 = 128;

/// One byte a weight and two bytes per block.
pub(super) struct Q8;

/// The weights of sixteen outputs for 32 inputs.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Tile {
    scales: [u16; LANES],
    quants: [[[u8; 4]; LANES]; BLOCK / 4],
}

/// One row's values for 32 inputs.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Block {
    quants: [[i8; 4]; BLOCK / 4],
    scale: f32,
    /// Takes the offset of the weights away again.
    correction: i32,
}

impl Block {
    /// Quantises 32 values: their largest magnitude becomes 127.
    #[inline(always)]
    pub(super) fn quantise(values: &[f32; BLOCK]) -> Self {
        let largest = values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let scale = largest / 127.0;
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        let quant = |i: usize| (values[i] * inverse).round_ties_even() as i8;
        let quants = std::array::from_fn(|j| std::array::from_fn(|k| quant(4 * j + k)));
        let total: i32 = (0..BLOCK).map(|i| i32::from(quant(i))).sum();
        Self { quants, scale, correction: -OFFSET * total }
    }
}

impl Storage for Q8 {
    type Step = Tile;
    type Value = Block;
    type Values<const M: usize> = [Block; M];
    const INPUTS: usize = BLOCK;
    const VALUES: usize = 1;
    const SIDE_BY_SIDE: bool = false;

    fn pack(rows: [&[f32]; LANES]) -> Tile {
        let scales = rows.map(|row| {
            let largest = row.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            half::f16::from_f32(largest / 127.0)
        });
        let quants = std::array::from_fn(|j| {
            std::array::from_fn(|lane| {
                let scale = scales[lane].to_f32();
                let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
                std::array::from_fn(|k| {
                    // A scale that was rounded down would take the largest
                    // weight beyond 127: the conversion saturates.
                    let quant = (rows[lane][4 * j + k] * inverse).round().clamp(-127.0, 127.0);
                    (quant as i32 + OFFSET) as u8
                })
            })
        });
        Tile { scales: scales.map(half::f16::to_bits), quants }
    }

    fn unpack(step: &Tile, lane: usize) -> impl Iterator<Item = f32> {
        let scale = half::f16::from_bits(step.scales[lane]).to_f32();
        let quants = step.quants.iter().flat_map(move |four| four[lane]);
        quants.map(move |quant| (i32::from(quant) - OFFSET) as f32 * scale)
    }

    fn rows_of<const M: usize>(values: &[Block]) -> &[[Block; M]] {
        values.as_chunks().0
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const T: usize>(
        isa: I,
        weights: [&Tile; T],
        values: &[Block; M],
        sums: &mut [[I::F; M]; T],
    ) {
        for t in 0..T {
            let scales = isa.load_f16(&weights[t].scales);
            for m in 0..M {
                let mut products = isa.splat_i32(values[m].correction);
                for (w, x) in weights[t].quants.iter().zip(values[m].quants) {
                    products = isa.dot4(products, w, x);
                }
                let products = isa.mul(isa.to_f32(products), isa.splat(values[m].scale));
                sums[t][m] = isa.fma(products, scales, sums[t][m]);
            }
        }
    }
}
