//! Weights stored as floating-point numbers; the arithmetic is f32.

use super::Storage;
use crate::lanes::{Isa, LANES};

/// Four bytes a weight.
pub(super) struct F32;

/// The upper two bytes of an f32; two inputs per step fill a cache line.
pub(super) struct Bf16;

/// IEEE half precision.
pub(super) struct F16;

/// One input: its weights in a tile times its value in `M` rows.
#[inline(always)]
fn add<I: Isa, const M: usize>(isa: I, weights: I::F, values: &[f32; M], sums: &mut [I::F; M]) {
    for m in 0..M {
        sums[m] = isa.fma(weights, isa.splat(values[m]), sums[m]);
    }
}

impl Storage for F32 {
    type Step = [f32; LANES];
    type Value = f32;
    type Values<const M: usize> = [f32; M];
    const INPUTS: usize = 1;
    const VALUES: usize = 1;
    const SIDE_BY_SIDE: bool = true;

    fn pack(rows: [&[f32]; LANES]) -> Self::Step {
        rows.map(|row| row[0])
    }

    fn unpack(step: &Self::Step, lane: usize) -> impl Iterator<Item = f32> {
        std::iter::once(step[lane])
    }

    fn rows_of<const M: usize>(values: &[f32]) -> &[[f32; M]] {
        values.as_chunks().0
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const T: usize>(
        isa: I,
        weights: [&Self::Step; T],
        values: &[f32; M],
        sums: &mut [[I::F; M]; T],
    ) {
        for t in 0..T {
            add(isa, isa.load(weights[t]), values, &mut sums[t]);
        }
    }
}

impl Storage for Bf16 {
    type Step = [[u16; 2]; LANES];
    type Value = f32;
    type Values<const M: usize> = [[f32; M]; 2];
    const INPUTS: usize = 2;
    const VALUES: usize = 2;
    const SIDE_BY_SIDE: bool = true;

    fn pack(rows: [&[f32]; LANES]) -> Self::Step {
        let bits = |x: f32| half::bf16::from_f32(x).to_bits();
        rows.map(|row| [bits(row[0]), row.get(1).map_or(0, |&x| bits(x))])
    }

    fn unpack(step: &Self::Step, lane: usize) -> impl Iterator<Item = f32> {
        step[lane].into_iter().map(|bits| half::bf16::from_bits(bits).to_f32())
    }

    fn rows_of<const M: usize>(values: &[f32]) -> &[[[f32; M]; 2]] {
        values.as_chunks().0.as_chunks().0
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const T: usize>(
        isa: I,
        weights: [&Self::Step; T],
        values: &[[f32; M]; 2],
        sums: &mut [[I::F; M]; T],
    ) {
        for t in 0..T {
            let [first, second] = isa.load_bf16_pairs(weights[t]);
            add(isa, first, &values[0], &mut sums[t]);
            add(isa, second, &values[1], &mut sums[t]);
        }
    }
}

impl Storage for F16 {
    type Step = [u16; LANES];
    type Value = f32;
    type Values<const M: usize> = [f32; M];
    const INPUTS: usize = 1;
    const VALUES: usize = 1;
    const SIDE_BY_SIDE: bool = true;

    fn pack(rows: [&[f32]; LANES]) -> Self::Step {
        rows.map(|row| half::f16::from_f32(row[0]).to_bits())
    }

    fn unpack(step: &Self::Step, lane: usize) -> impl Iterator<Item = f32> {
        std::iter::once(half::f16::from_bits(step[lane]).to_f32())
    }

    fn rows_of<const M: usize>(values: &[f32]) -> &[[f32; M]] {
        values.as_chunks().0
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const T: usize>(
        isa: I,
        weights: [&Self::Step; T],
        values: &[f32; M],
        sums: &mut [[I::F; M]; T],
    ) {
        for t in 0..T {
            add(isa, isa.load_f16(weights[t]), values, &mut sums[t]);
        }
    }
}
