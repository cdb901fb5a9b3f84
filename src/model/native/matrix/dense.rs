//! Weights stored as floating-point numbers; the arithmetic is f32.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::{Chunk, Storage};
use crate::lanes::{Isa, LANES};

/// Four bytes a weight.
pub(super) type F32 = Dense<f32>;
/// The upper two bytes of an f32.
pub(super) type Bf16 = Dense<half::bf16>;
/// IEEE half precision.
pub(super) type F16 = Dense<half::f16>;

/// One number per weight.
pub(super) struct Dense<W>(PhantomData<W>);

/// A number that weights are stored as.
pub(super) trait Weight {
    /// In memory.
    type Bits: Pod;

    /// The nearest one.
    fn pack(x: f32) -> Self::Bits;

    /// Its value; exact.
    fn unpack(bits: Self::Bits) -> f32;

    /// The values of sixteen; exact.
    fn load<I: Isa>(isa: I, bits: &[Self::Bits; LANES]) -> I::F;
}

impl Weight for f32 {
    type Bits = f32;

    fn pack(x: f32) -> f32 {
        x
    }

    fn unpack(bits: f32) -> f32 {
        bits
    }

    #[inline(always)]
    fn load<I: Isa>(isa: I, bits: &[f32; LANES]) -> I::F {
        isa.load(bits)
    }
}

impl Weight for half::bf16 {
    type Bits = u16;

    fn pack(x: f32) -> u16 {
        Self::from_f32(x).to_bits()
    }

    fn unpack(bits: u16) -> f32 {
        Self::from_bits(bits).to_f32()
    }

    #[inline(always)]
    fn load<I: Isa>(isa: I, bits: &[u16; LANES]) -> I::F {
        isa.load_bf16(bits)
    }
}

impl Weight for half::f16 {
    type Bits = u16;

    fn pack(x: f32) -> u16 {
        Self::from_f32(x).to_bits()
    }

    fn unpack(bits: u16) -> f32 {
        Self::from_bits(bits).to_f32()
    }

    #[inline(always)]
    fn load<I: Isa>(isa: I, bits: &[u16; LANES]) -> I::F {
        isa.load_f16(bits)
    }
}

impl<W: Weight> Storage for Dense<W> {
    type Step = [W::Bits; LANES];
    type Value = Chunk;
    const INPUTS: usize = 1;
    const STEPS: usize = LANES;
    const SIDE_BY_SIDE: bool = true;

    fn pack(rows: [&[f32]; LANES]) -> Self::Step {
        rows.map(|row| W::pack(row[0]))
    }

    fn unpack(step: &Self::Step, lane: usize) -> impl Iterator<Item = f32> {
        std::iter::once(W::unpack(step[lane]))
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
            loaded[t] = W::load(isa, weights[t]);
        }
        // Row by row: one register holds a value until all tiles have used it.
        for m in 0..M {
            let value = isa.splat(values[m][at % LANES]);
            for t in 0..T {
                sums[t][m] = isa.fma(loaded[t], value, sums[t][m]);
            }
        }
    }
}
