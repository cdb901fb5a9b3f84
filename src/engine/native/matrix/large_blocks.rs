//! Weights stored as in the blocks of 256 of GGUF files: small integers, whose scales and
//! minima are small integers themselves.
//!
//! The products of a part with the quantised values of a row are exact integers, and so are
//! the scales of parts as f32; the parts are summed in one chain of f32.

use bytemuck::{Pod, Zeroable};

use super::integers::{Fives, LaneWeights, Nibbles, Sixes, StepChoices, Threes};
use super::{BlockFormat, StorageFormat, ValueForm};
use crate::core::lanes::integers::{GROUPS, Integers};
use crate::core::lanes::{BLOCK, Isa, IsaKind, LANES, Quants};
use crate::engine::blocks::{LargeBlock, STEPS};

/// Parts of 32 inputs.
pub(super) const PARTS: usize = 8;

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

/// The weights of sixteen outputs for 256 inputs, around zero.
pub(super) trait AroundTile: Pod + Send {
    /// The integers of a part.
    type Weights: LaneWeights;
    /// Number of scales of a part, 1 or 2.
    const SCALES: usize;
    /// What the products subtract from each integer.
    const OFFSET: i32;

    /// A block of bytes; none if there are too few.
    fn parse(block: &[u8]) -> Option<LargeBlock>;

    /// What an integer stands for.
    fn number(integer: u8) -> i32;

    fn scale(&self) -> &[u16; LANES];

    /// A scale of a part, with a sign.
    fn part_scale(&self, part: usize, number: usize) -> &[u8; LANES];

    fn parts(&self) -> &[Self::Weights; PARTS];

    fn put(&mut self, lane: usize, block: &LargeBlock);
}

/// Declares a type of blocks.
macro_rules! around_tile {
    ($name:ident, $parse:ident, $weights:ty, $scales:literal, $offset:literal, $number:expr) => {
        #[derive(Debug, Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        pub(super) struct $name {
            scale: [u16; LANES],
            scales: [[[u8; LANES]; $scales]; PARTS],
            parts: [$weights; PARTS],
        }

        impl AroundTile for $name {
            type Weights = $weights;
            const SCALES: usize = $scales;
            const OFFSET: i32 = $offset;

            fn parse(block: &[u8]) -> Option<LargeBlock> {
                block.first_chunk().map(LargeBlock::$parse)
            }

            fn number(integer: u8) -> i32 {
                let number: fn(u8) -> i32 = $number;
                number(integer)
            }

            #[inline(always)]
            fn scale(&self) -> &[u16; LANES] {
                &self.scale
            }

            #[inline(always)]
            fn part_scale(&self, part: usize, number: usize) -> &[u8; LANES] {
                &self.scales[part][number]
            }

            #[inline(always)]
            fn parts(&self) -> &[$weights; PARTS] {
                &self.parts
            }

            fn put(&mut self, lane: usize, block: &LargeBlock) {
                self.scale[lane] = block.scale;
                for (part, integers) in block.integers.as_chunks().0.iter().enumerate() {
                    for (number, scales) in self.scales[part].iter_mut().enumerate() {
                        scales[lane] = block.scales[$scales * part + number];
                    }
                    self.parts[part].put(lane, integers);
                }
            }
        }
    };
}

around_tile!(TileOf6K, q6_k, Sixes, 2, 32, |q| i32::from(q) - 32);
around_tile!(TileOf3K, q3_k, Threes, 2, 4, |q| i32::from(q) - 4);
around_tile!(TileOfIq4Xs, iq4_xs, StepChoices, 1, 128, |q| i32::from(STEPS[usize::from(q)]));

/// Integers around zero, times a scale.
pub(super) struct LargeAround<T>(std::marker::PhantomData<T>);

impl<T: AroundTile> BlockFormat for LargeAround<T> {
    fn put(tile: &mut T, lane: usize, block: &[u8]) {
        if let Some(block) = T::parse(block) {
            tile.put(lane, &block);
        }
    }
}

impl<T: AroundTile> StorageFormat for LargeAround<T> {
    type Step = T;
    type Value<I: Isa> = [Integers; PARTS];
    const FORM: ValueForm = ValueForm::LargeBlocks;
    const INPUTS: usize = BLOCK * PARTS;

    fn unpack(_: IsaKind, tile: &T, lane: usize) -> impl Iterator<Item = f32> {
        let scale = half::f16::from_bits(tile.scale()[lane]).to_f32();
        (0..PARTS * BLOCK).map(move |input| {
            let (part, input) = (input / BLOCK, input % BLOCK);
            let own = tile.part_scale(part, input * T::SCALES / BLOCK)[lane];
            let integer = T::number(tile.parts()[part].get(lane, input));
            scale * f32::from(own.cast_signed()) * integer as f32
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
        const HALF: usize = GROUPS / 2;
        for n in 0..N {
            let tile = weights[n];
            let scale = isa.load_f16(tile.scale());
            #[allow(clippy::needless_range_loop)] // `part` indexes weights and values
            for part in 0..PARTS {
                let mut x = [&values[0][part]; M];
                for m in 1..M {
                    x[m] = &values[m][part];
                }
                let integers = (&tile.parts()[part], T::OFFSET);
                for number in 0..T::SCALES {
                    let products = if const { T::SCALES == 1 } {
                        isa.dot_groups::<_, GROUPS, M>(integers, 0, x)
                    } else {
                        isa.dot_groups::<_, HALF, M>(integers, number * HALF, x)
                    };
                    let scale = isa.mul(scale, isa.load_i8(tile.part_scale(part, number)));
                    for m in 0..M {
                        let products = isa.mul(isa.to_f32(products[m]), isa.splat(x[m].scale()));
                        sums[n][m] = isa.fma(products, scale, sums[n][m]);
                    }
                }
            }
        }
    }
}
