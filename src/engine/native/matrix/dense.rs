//! Weights stored as floating-point numbers; the arithmetic is f32.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::groups::Groups;
use super::{BlockFormat, Chunk, NumberFormat, StorageFormat, ValueForm};
use crate::core::lanes::{Isa, IsaKind, LANES};

/// Four bytes per weight.
pub(super) type F32 = Dense<f32>;
/// IEEE half precision.
pub(super) type F16 = Dense<half::f16>;

/// One number per weight.
pub(super) struct Dense<W>(PhantomData<W>);

/// The upper two bytes of an f32; two inputs per step, so that one load and one
/// operation each turn them into f32.
pub(super) struct Bf16;

/// A number type in which weights are stored.
pub(super) trait Weight {
    /// Its representation in memory.
    type Bits: Pod + Send;
    /// See [`StorageFormat::AVX2_PAIRED_ROWS`].
    const AVX2_PAIRED_ROWS: usize;
    /// See [`StorageFormat::AVX2_AHEAD`].
    const AVX2_AHEAD: usize;

    /// The nearest value of this type.
    fn pack(x: f32) -> Self::Bits;

    /// As it is stored in files.
    fn of_bytes(bytes: &[u8]) -> Self::Bits;

    /// Its value; exact.
    fn unpack(bits: Self::Bits) -> f32;

    /// The values of sixteen numbers; exact.
    fn load<I: Isa>(isa: I, bits: &[Self::Bits; LANES]) -> I::F;
}

impl Weight for f32 {
    type Bits = f32;
    const AVX2_PAIRED_ROWS: usize = 3;
    const AVX2_AHEAD: usize = 1024;

    fn pack(x: f32) -> f32 {
        x
    }

    fn of_bytes(bytes: &[u8]) -> f32 {
        f32::from_bits(u32::from_le_bytes(array(bytes)))
    }

    fn unpack(bits: f32) -> f32 {
        bits
    }

    #[inline(always)]
    fn load<I: Isa>(isa: I, bits: &[f32; LANES]) -> I::F {
        isa.load(bits)
    }
}

impl Weight for half::f16 {
    type Bits = u16;
    const AVX2_PAIRED_ROWS: usize = 2;
    const AVX2_AHEAD: usize = 4096;

    fn pack(x: f32) -> u16 {
        Self::from_f32(x).to_bits()
    }

    fn of_bytes(bytes: &[u8]) -> u16 {
        u16::from_le_bytes(array(bytes))
    }

    fn unpack(bits: u16) -> f32 {
        Self::from_bits(bits).to_f32()
    }

    #[inline(always)]
    fn load<I: Isa>(isa: I, bits: &[u16; LANES]) -> I::F {
        isa.load_f16(bits)
    }
}

/// The first bytes; zeros stand for those that are missing.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

/// Adds one input, the `at`-th of the chunks: its weights in `T` tiles times its value
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

impl<W: Weight> NumberFormat for Dense<W> {
    fn put_numbers(_: IsaKind, step: &mut Self::Step, lane: usize, weights: &[f32]) {
        step[lane] = W::pack(weights[0]);
    }
}

impl<W: Weight> BlockFormat for Dense<W> {
    fn put(step: &mut Self::Step, lane: usize, block: &[u8]) {
        step[lane] = W::of_bytes(block);
    }
}

impl<W: Weight> StorageFormat for Dense<W> {
    type Step = [W::Bits; LANES];
    type Value<I: Isa> = Chunk;
    const FORM: ValueForm = ValueForm::Chunks;
    const INPUTS: usize = 1;
    const STEPS: usize = LANES;
    const AVX2_GROUPS: Groups = Groups::of(6);
    const VNNI_GROUPS: Groups = Self::AVX2_GROUPS;
    const MOST_ROWS: [usize; 2] = [6, 14];
    const AVX2_PAIRED_ROWS: usize = W::AVX2_PAIRED_ROWS;
    const AVX2_AHEAD: usize = W::AVX2_AHEAD;

    fn unpack(_: IsaKind, step: &Self::Step, lane: usize) -> impl Iterator<Item = f32> {
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
        add(isa, loaded, values, at, sums);
    }
}

impl NumberFormat for Bf16 {
    fn put_numbers(_: IsaKind, step: &mut Self::Step, lane: usize, weights: &[f32]) {
        for (bits, weight) in step[lane].iter_mut().zip(weights) {
            *bits = half::bf16::from_f32(*weight).to_bits();
        }
    }
}

impl BlockFormat for Bf16 {
    fn put(step: &mut Self::Step, lane: usize, block: &[u8]) {
        let [a, b, c, d] = array(block);
        step[lane] = [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])];
    }
}

impl StorageFormat for Bf16 {
    type Step = [[u16; 2]; LANES];
    type Value<I: Isa> = Chunk;
    const FORM: ValueForm = ValueForm::Chunks;
    const INPUTS: usize = 2;
    const STEPS: usize = LANES / 2;
    // A sixth row would need two more registers than there are: those of both inputs'
    // weights and of the mask that separates them.
    const AVX2_GROUPS: Groups = Groups::even(5);
    const VNNI_GROUPS: Groups = Self::AVX2_GROUPS;
    // With more rows the compiler keeps too much of both inputs in registers and
    // spills the sums.
    const MOST_ROWS: [usize; 2] = [3, 12];
    const AVX2_PAIRED_ROWS: usize = 2;

    fn unpack(_: IsaKind, step: &Self::Step, lane: usize) -> impl Iterator<Item = f32> {
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
