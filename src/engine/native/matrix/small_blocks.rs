//! Weights stored as in the blocks of 32 of GGUF files: small integers with a scale, and in
//! some types a minimum.
//!
//! The values of a row are quantised in the same blocks. Products within a block are exact
//! integers; the blocks are summed in one chain of f32.

use bytemuck::{Pod, Zeroable};

use super::integers::{Eights, Fives, LaneWeights, Nibbles, NumberChoices, StepChoices};
use super::{BlockFormat, StorageFormat, ValueForm};
use crate::core::lanes::integers::{GROUPS, Integers};
use crate::core::lanes::{BLOCK, Isa, IsaKind, LANES, Quants};
use crate::engine::blocks::{NUMBERS, STEPS, SmallBlock};

/// The weights of sixteen outputs for 32 inputs.
pub(super) trait SmallTile: Pod + Send {
    /// Its integers.
    type Weights: LaneWeights;
    /// What the products subtract from each integer.
    const OFFSET: i32;

    /// A block of bytes; none if there are too few.
    fn parse(block: &[u8]) -> Option<SmallBlock>;

    /// Sets the weights of a lane, which must be zero.
    fn put(&mut self, lane: usize, block: &SmallBlock);

    /// What an integer stands for.
    fn number(integer: u8) -> i32;

    fn integers(&self) -> &Self::Weights;

    /// The scales of all lanes.
    fn scales<I: Isa>(&self, isa: I) -> I::F;

    /// The scale of a lane.
    fn scale(&self, lane: usize) -> f32;

    /// None in types whose integers are around zero.
    fn minima(&self) -> Option<&[u16; LANES]>;
}

/// Declares a type of blocks.
macro_rules! small_tile {
    ($name:ident, $parse:ident, $weights:ty, $offset:literal, $number:expr $(, $minima:ident)?) => {
        #[derive(Debug, Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        pub(super) struct $name {
            scales: [u16; LANES],
            $($minima: [u16; LANES],)?
            integers: $weights,
        }

        impl SmallTile for $name {
            type Weights = $weights;
            const OFFSET: i32 = $offset;

            fn parse(block: &[u8]) -> Option<SmallBlock> {
                block.first_chunk().map(SmallBlock::$parse)
            }

            fn put(&mut self, lane: usize, block: &SmallBlock) {
                self.scales[lane] = block.scale;
                $(self.$minima[lane] = block.minimum;)?
                self.integers.put(lane, &block.integers);
            }

            fn number(integer: u8) -> i32 {
                let number: fn(u8) -> i32 = $number;
                number(integer)
            }

            #[inline(always)]
            fn integers(&self) -> &$weights {
                &self.integers
            }

            #[inline(always)]
            fn scales<I: Isa>(&self, isa: I) -> I::F {
                isa.load_f16(&self.scales)
            }

            fn scale(&self, lane: usize) -> f32 {
                half::f16::from_bits(self.scales[lane]).to_f32()
            }

            #[inline(always)]
            fn minima(&self) -> Option<&[u16; LANES]> {
                [$(&self.$minima)?].into_iter().next()
            }
        }
    };
}

small_tile!(TileOf4_0, q4_0, Nibbles, 8, |q| i32::from(q) - 8);
small_tile!(TileOf4_1, q4_1, Nibbles, 0, i32::from, minima);
small_tile!(TileOf5_0, q5_0, Fives, 16, |q| i32::from(q) - 16);
small_tile!(TileOf5_1, q5_1, Fives, 0, i32::from, minima);
small_tile!(TileOf8_0, q8_0, Eights, 128, |q| i32::from(q.cast_signed()));
small_tile!(TileOfIq4Nl, iq4_nl, StepChoices, 128, |q| i32::from(STEPS[usize::from(q)]));

/// MXFP4, whose scales are powers of two.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct TileOfMxfp4 {
    powers: [u8; LANES],
    integers: NumberChoices,
}

impl SmallTile for TileOfMxfp4 {
    type Weights = NumberChoices;
    const OFFSET: i32 = 128;

    fn parse(block: &[u8]) -> Option<SmallBlock> {
        block.first_chunk().map(SmallBlock::mxfp4)
    }

    fn put(&mut self, lane: usize, block: &SmallBlock) {
        self.powers[lane] = block.scale as u8;
        self.integers.put(lane, &block.integers);
    }

    fn number(integer: u8) -> i32 {
        i32::from(NUMBERS[usize::from(integer)])
    }

    #[inline(always)]
    fn integers(&self) -> &NumberChoices {
        &self.integers
    }

    /// 2^(e − 128), as a half of a power that is not subnormal; the least power becomes zero,
    /// below which there is no weight of any model.
    #[inline(always)]
    fn scales<I: Isa>(&self, isa: I) -> I::F {
        let power = isa.sub(isa.load_u8(&self.powers), isa.splat(127.0));
        isa.mul(isa.exp2_integer(power), isa.splat(0.5))
    }

    fn scale(&self, lane: usize) -> f32 {
        f32::from_bits(u32::from(self.powers[lane]) << 23) * 0.5
    }

    fn minima(&self) -> Option<&[u16; LANES]> {
        None
    }
}

/// Blocks of one of these types.
pub(super) struct Small<T>(std::marker::PhantomData<T>);

impl<T: SmallTile> BlockFormat for Small<T> {
    fn put(tile: &mut T, lane: usize, block: &[u8]) {
        if let Some(block) = T::parse(block) {
            tile.put(lane, &block);
        }
    }
}

impl<T: SmallTile> StorageFormat for Small<T> {
    type Step = T;
    type Value<I: Isa> = Integers;
    const FORM: ValueForm = ValueForm::Blocks;
    const INPUTS: usize = BLOCK;

    fn unpack(_: IsaKind, tile: &T, lane: usize) -> impl Iterator<Item = f32> {
        let number = |bits: &[u16; LANES]| half::f16::from_bits(bits[lane]).to_f32();
        let (scale, minimum) = (tile.scale(lane), tile.minima().map_or(0.0, number));
        let integers = (0..BLOCK).map(move |input| tile.integers().get(lane, input));
        integers.map(move |q| scale * T::number(q) as f32 + minimum)
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const N: usize>(
        isa: I,
        weights: [&T; N],
        values: &[Integers; M],
        _at: usize,
        sums: &mut [[I::F; M]; N],
    ) {
        for n in 0..N {
            let tile = weights[n];
            let scales = tile.scales(isa);
            let weights = (tile.integers(), T::OFFSET);
            let products = isa.dot_groups::<_, GROUPS, M>(weights, 0, values.each_ref());
            for m in 0..M {
                let products = isa.mul(isa.to_f32(products[m]), isa.splat(values[m].scale()));
                sums[n][m] = isa.fma(products, scales, sums[n][m]);
            }
            if let Some(minima) = tile.minima() {
                let minima = isa.load_f16(minima);
                for m in 0..M {
                    sums[n][m] = isa.fma(isa.splat(values[m].total()), minima, sums[n][m]);
                }
            }
        }
    }
}
