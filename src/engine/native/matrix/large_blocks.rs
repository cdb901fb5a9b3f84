//! Weights stored as in the blocks of 256 of GGUF files: small integers, whose scales and
//! minima are small integers themselves.
//!
//! The products of a part with the quantised values of a row are exact integers, and so are
//! the scales of parts as f32; the parts are summed in one chain of f32.

use bytemuck::{Pod, Zeroable};

use super::integers::{Fives, LaneWeights, Nibbles, Sixes};
use super::{BlockFormat, StorageFormat, ValueForm};
use crate::core::lanes::integers::{GROUPS, Integers};
use crate::core::lanes::{BLOCK, Isa, IsaKind, LANES, Quants};
use crate::engine::blocks::LargeBlock;

/// Parts of 32 inputs.
pub(super) const PARTS: usize = 8;
/// What Q6_K subtracts from each integer.
const MIDDLE: i32 = 32;

/// The weights of sixteen outputs for 256 inputs, from minima up.
pub(super) trait UpwardTile: Pod + Send {
    /// The integers of a part.
    type Weights: LaneWeights;

    /// A block of bytes; none if there are too few.
    fn parse(block: &[u8]) -> Option<LargeBlock>;

    fn scales(&self) -> &UpwardScales;

    fn parts(&self) -> &[Self::Weights; PARTS];

    fn both(&mut self) -> (&mut UpwardScales, &mut [Self::Weights; PARTS]);
}

/// The scales and minima of sixteen lanes.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct UpwardScales {
    scale: [u16; LANES],
    minimum: [u16; LANES],
    scales: [[u8; LANES]; PARTS],
    minima: [[u8; LANES]; PARTS],
}

/// Declares a type of blocks.
macro_rules! upward_tile {
    ($name:ident, $parse:ident, $weights:ty) => {
        #[derive(Debug, Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        pub(super) struct $name {
            scales: UpwardScales,
            parts: [$weights; PARTS],
        }

        impl UpwardTile for $name {
            type Weights = $weights;

            fn parse(block: &[u8]) -> Option<LargeBlock> {
                block.first_chunk().map(LargeBlock::$parse)
            }

            #[inline(always)]
            fn scales(&self) -> &UpwardScales {
                &self.scales
            }

            #[inline(always)]
            fn parts(&self) -> &[$weights; PARTS] {
                &self.parts
            }

            fn both(&mut self) -> (&mut UpwardScales, &mut [$weights; PARTS]) {
                (&mut self.scales, &mut self.parts)
            }
        }
    };
}

upward_tile!(TileOf4K, q4_k, Nibbles);
upward_tile!(TileOf5K, q5_k, Fives);

/// Integers from zero up, times a scale, less a minimum.
pub(super) struct LargeUpward<T>(std::marker::PhantomData<T>);

impl<T: UpwardTile> BlockFormat for LargeUpward<T> {
    fn put(tile: &mut T, lane: usize, block: &[u8]) {
        let Some(block) = T::parse(block) else { return };
        let (scales, parts) = tile.both();
        (scales.scale[lane], scales.minimum[lane]) = (block.scale, block.minimum);
        for (part, integers) in block.integers.as_chunks().0.iter().enumerate() {
            scales.scales[part][lane] = block.scales[part];
            scales.minima[part][lane] = block.minima[part];
            parts[part].put(lane, integers);
        }
    }
}

impl<T: UpwardTile> StorageFormat for LargeUpward<T> {
    type Step = T;
    type Value<I: Isa> = [Integers; PARTS];
    const FORM: ValueForm = ValueForm::LargeBlocks;
    const INPUTS: usize = BLOCK * PARTS;

    fn unpack(_: IsaKind, tile: &T, lane: usize) -> impl Iterator<Item = f32> {
        let scales = tile.scales();
        let [scale, minimum] =
            [&scales.scale, &scales.minimum].map(|x| half::f16::from_bits(x[lane]).to_f32());
        (0..PARTS).flat_map(move |part| {
            let scale = scale * f32::from(scales.scales[part][lane]);
            let minimum = minimum * f32::from(scales.minima[part][lane]);
            let integers = (0..BLOCK).map(move |input| tile.parts()[part].get(lane, input));
            integers.map(move |q| scale * f32::from(q) - minimum)
        })
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const N: usize>(
        isa: I,
        weights: [&T; N],
        values: &[[Integers; PARTS]; M],
        _at: usize,
        sums: &mut [[I::F; M]; N],
    ) {
        for n in 0..N {
            let scales = weights[n].scales();
            let scale = isa.load_f16(&scales.scale);
            let minimum = isa.sub(isa.splat(0.0), isa.load_f16(&scales.minimum));
            #[allow(clippy::needless_range_loop)] // `part` indexes weights and values
            for part in 0..PARTS {
                let mut x = [&values[0][part]; M];
                for m in 1..M {
                    x[m] = &values[m][part];
                }
                let integers = (&weights[n].parts()[part], 0);
                let products = isa.dot_groups::<_, GROUPS, M>(integers, 0, x);
                let scale = isa.mul(scale, isa.load_u8(&scales.scales[part]));
                let minimum = isa.mul(minimum, isa.load_u8(&scales.minima[part]));
                for m in 0..M {
                    let products = isa.mul(isa.to_f32(products[m]), isa.splat(x[m].scale()));
                    sums[n][m] = isa.fma(products, scale, sums[n][m]);
                    sums[n][m] = isa.fma(isa.splat(x[m].total()), minimum, sums[n][m]);
                }
            }
        }
    }
}

/// The weights of sixteen outputs for 256 inputs, with a scale for every sixteen.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct TileOf6K {
    scale: [u16; LANES],
    /// With a sign.
    scales: [[[u8; LANES]; 2]; PARTS],
    parts: [Sixes; PARTS],
}

/// Integers around 32, times a scale.
pub(super) struct Q6K;

impl BlockFormat for Q6K {
    fn put(tile: &mut TileOf6K, lane: usize, block: &[u8]) {
        let Some(block) = block.first_chunk().map(LargeBlock::q6_k) else { return };
        tile.scale[lane] = block.scale;
        for (part, integers) in block.integers.as_chunks().0.iter().enumerate() {
            tile.scales[part][0][lane] = block.scales[2 * part];
            tile.scales[part][1][lane] = block.scales[2 * part + 1];
            tile.parts[part].put(lane, integers);
        }
    }
}

impl StorageFormat for Q6K {
    type Step = TileOf6K;
    type Value<I: Isa> = [Integers; PARTS];
    const FORM: ValueForm = ValueForm::LargeBlocks;
    const INPUTS: usize = BLOCK * PARTS;

    fn unpack(_: IsaKind, tile: &TileOf6K, lane: usize) -> impl Iterator<Item = f32> {
        let scale = half::f16::from_bits(tile.scale[lane]).to_f32();
        (0..PARTS * BLOCK).map(move |input| {
            let (part, input) = (input / BLOCK, input % BLOCK);
            let half = tile.scales[part][input / (BLOCK / 2)][lane];
            let integer = i32::from(tile.parts[part].get(lane, input)) - MIDDLE;
            scale * f32::from(half.cast_signed()) * integer as f32
        })
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const N: usize>(
        isa: I,
        weights: [&TileOf6K; N],
        values: &[[Integers; PARTS]; M],
        _at: usize,
        sums: &mut [[I::F; M]; N],
    ) {
        for n in 0..N {
            let tile = weights[n];
            let scale = isa.load_f16(&tile.scale);
            #[allow(clippy::needless_range_loop)] // `part` indexes weights and values
            for part in 0..PARTS {
                let mut x = [&values[0][part]; M];
                for m in 1..M {
                    x[m] = &values[m][part];
                }
                for half in 0..2 {
                    const HALF: usize = GROUPS / 2;
                    let integers = (&tile.parts[part], MIDDLE);
                    let products = isa.dot_groups::<_, HALF, M>(integers, half * HALF, x);
                    let scale = isa.mul(scale, isa.load_i8(&tile.scales[part][half]));
                    for m in 0..M {
                        let products = isa.mul(isa.to_f32(products[m]), isa.splat(x[m].scale()));
                        sums[n][m] = isa.fma(products, scale, sums[n][m]);
                    }
                }
            }
        }
    }
}
