//! Weights stored as blocks of 32 signed bytes with an f16 scale (`Q8_0`).
//!
//! The values of a row are quantised in the same blocks. Products within a block are
//! exact in 32-bit integers; the blocks are summed in one chain of f32.

use bytemuck::{Pod, Zeroable};

use super::groups::Groups;
use super::{NumberFormat, StorageFormat, ValueForm};
use crate::core::lanes::{Bytes, Isa, IsaKind, LANES, Quants};

pub(super) use crate::core::lanes::BLOCK;
use crate::engine::options::Q8_LEVELS;

/// One byte per weight and two bytes per block.
pub(super) struct Q8;

/// The weights of sixteen outputs for 32 inputs.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Tile {
    scales: [u16; LANES],
    quants: Bytes,
}

/// Adding this to a number between −2²² and 2²² leaves the nearest integer, ties to
/// even, in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// Quantises a row's values for 32 inputs: their largest magnitude becomes 127. If any
/// value is not finite, the scale is NaN.
#[inline(always)]
pub(super) fn quantised<Q: Quants>(values: &[f32; BLOCK]) -> Q {
    // As integers, the magnitudes of infinity and NaN are larger than those of numbers.
    let mut largest = 0;
    for value in values {
        largest = largest.max(value.abs().to_bits());
    }
    let largest = f32::from_bits(largest);
    let scale = if largest.is_finite() { largest / 127.0 } else { f32::NAN };
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let mut quants = [0i8; BLOCK];
    for i in 0..BLOCK {
        quants[i] = (values[i] * inverse + ROUND).to_bits() as i8;
    }
    Q::new(quants, scale)
}

impl NumberFormat for Q8 {
    fn put_numbers(isa: IsaKind, tile: &mut Tile, lane: usize, weights: &[f32]) {
        let scale = weights.iter().fold(0.0f32, |most, x| most.max(x.abs())) / Q8_LEVELS;
        tile.scales[lane] = half::f16::from_f32(scale).to_bits();
        // Uses the scale before it is rounded to f16, as in GGUF files.
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        for (input, weight) in weights.iter().enumerate() {
            let (at, flipped) = isa.byte(lane, input);
            let quant = (weight * inverse).round() as i8;
            tile.quants[at] = quant.cast_unsigned() ^ flipped;
        }
    }
}

impl StorageFormat for Q8 {
    type Step = Tile;
    type Value<I: Isa> = I::Quants;
    const FORM: ValueForm = ValueForm::Quants;
    const INPUTS: usize = BLOCK;
    const STEPS: usize = 1;
    const AVX2_GROUPS: Groups = Groups::even(6);
    // Eight lanes at a time, so that one register per row is enough.
    const VNNI_GROUPS: Groups = Groups::even(8);
    // One tile at a time: its integer sums already keep the processor busy.
    const MOST_ROWS: [usize; 2] = [0, 0];
    const AVX2_PAIRED_ROWS: usize = 0;

    fn unpack(isa: IsaKind, step: &Tile, lane: usize) -> impl Iterator<Item = f32> {
        let scale = half::f16::from_bits(step.scales[lane]).to_f32();
        (0..BLOCK).map(move |input| {
            let (at, flipped) = isa.byte(lane, input);
            f32::from((step.quants[at] ^ flipped).cast_signed()) * scale
        })
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const T: usize>(
        isa: I,
        weights: [&Tile; T],
        values: &[I::Quants; M],
        _at: usize,
        sums: &mut [[I::F; M]; T],
    ) {
        for t in 0..T {
            let scales = isa.load_f16(&weights[t].scales);
            let products = isa.dot(&weights[t].quants, values.each_ref());
            for m in 0..M {
                let products = isa.mul(isa.to_f32(products[m]), isa.splat(values[m].scale()));
                sums[t][m] = isa.fma(products, scales, sums[t][m]);
            }
        }
    }
}
