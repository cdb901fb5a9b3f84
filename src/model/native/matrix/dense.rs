//! Weights stored as floating-point numbers; the arithmetic is f32.

use super::{Chunk, Storage};
use crate::lanes::{Isa, LANES};

/// Four bytes a weight.
pub(super) struct F32;

/// The upper two bytes of an f32; two inputs per step fill a cache line.
pub(super) struct Bf16;

/// IEEE half precision.
pub(super) struct F16;

/// One input, the `at`-th of the chunks: its weights in `T` tiles times its value
/// in `M` rows.
#[inline(always)]
fn add<I: Isa, const M: usize, const T: usize>(
    isa: I,
    weights: [I::F; T],
    values: &[Chunk; M],
    at: usize,
    sums: &mut [[I::F; M]; T],
) {
    // Row by row: one register holds a value until all tiles have used it.
    for m in 0..M {
        let value = isa.splat(values[m][at % LANES]);
        for t in 0..T {
            sums[t][m] = isa.fma(weights[t], value, sums[t][m]);
        }
    }
}

impl Storage for F32 {
    type Step = [f32; LANES];
    type Value = Chunk;
    const INPUTS: usize = 1;
    const STEPS: usize = LANES;
    const SIDE_BY_SIDE: Option<usize> = Some(1);

    fn pack(rows: [&[f32]; LANES]) -> Self::Step {
        rows.map(|row| row[0])
    }

    fn unpack(step: &Self::Step, lane: usize) -> impl Iterator<Item = f32> {
        std::iter::once(step[lane])
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const T: usize>(
        isa: I,
        weights: [&Self::Step; T],
        values: &[Chunk; M],
        at: usize,
        sums: &mut [[I::F; M]; T],
    ) {
        let mut loaded = [isa.splat(0.0); T];
        for t in 0..T {
            loaded[t] = isa.load(weights[t]);
        }
        add(isa, loaded, values, at, sums);
    }
}

impl Storage for Bf16 {
    type Step = [[u16; 2]; LANES];
    type Value = Chunk;
    const INPUTS: usize = 2;
    const STEPS: usize = LANES / 2;
    const SIDE_BY_SIDE: Option<usize> = Some(3);

    fn pack(rows: [&[f32]; LANES]) -> Self::Step {
        let bits = |x: f32| half::bf16::from_f32(x).to_bits();
        rows.map(|row| [bits(row[0]), row.get(1).map_or(0, |&x| bits(x))])
    }

    fn unpack(step: &Self::Step, lane: usize) -> impl Iterator<Item = f32> {
        step[lane].into_iter().map(|bits| half::bf16::from_bits(bits).to_f32())
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const T: usize>(
        isa: I,
        weights: [&Self::Step; T],
        values: &[Chunk; M],
        at: usize,
        sums: &mut [[I::F; M]; T],
    ) {
        let mut loaded = [isa.splat(0.0); T];
        for t in 0..T {
            loaded[t] = isa.load_bf16_first(weights[t]);
        }
        add(isa, loaded, values, 2 * at, sums);
        for t in 0..T {
            loaded[t] = isa.load_bf16_second(weights[t]);
        }
        add(isa, loaded, values, 2 * at + 1, sums);
    }
}

impl Storage for F16 {
    type Step = [u16; LANES];
    type Value = Chunk;
    const INPUTS: usize = 1;
    const STEPS: usize = LANES;
    const SIDE_BY_SIDE: Option<usize> = Some(1);

    fn pack(rows: [&[f32]; LANES]) -> Self::Step {
        rows.map(|row| half::f16::from_f32(row[0]).to_bits())
    }

    fn unpack(step: &Self::Step, lane: usize) -> impl Iterator<Item = f32> {
        std::iter::once(half::f16::from_bits(step[lane]).to_f32())
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const T: usize>(
        isa: I,
        weights: [&Self::Step; T],
        values: &[Chunk; M],
        at: usize,
        sums: &mut [[I::F; M]; T],
    ) {
        let mut loaded = [isa.splat(0.0); T];
        for t in 0..T {
            loaded[t] = isa.load_f16(weights[t]);
        }
        add(isa, loaded, values, at, sums);
    }
}
