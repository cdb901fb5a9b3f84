//! Weights stored in four bits with a zero point, and an f32 scale: w = scale · (q − zero).
//!
//! The values of a row are quantised in blocks of 32. Products within a block are exact integers,
//! and so is what the zero point subtracts from them; the blocks are summed in one chain of f32. A
//! zero point of 8 has the bits of Q4_0.

use bytemuck::{Pod, Zeroable};

use super::integers::{LaneWeights, Nibbles};
use super::{BlockFormat, StorageFormat, ValueForm};
use crate::core::lanes::integers::{GROUPS, Integers};
use crate::core::lanes::{BLOCK, Isa, IsaKind, LANES, Quants};
use crate::engine::blocks::ZeroPointBlock;

/// Blocks of values for a scale per 128 inputs.
pub(super) const MIDDLE_PARTS: usize = 4;

/// The weights of sixteen outputs for the inputs of a scale.
pub(super) trait ZeroPointTile: Pod + Send {
    /// The values for these inputs, in blocks of 32.
    type Values: Pod;
    /// What they are.
    const FORM: ValueForm;
    /// Blocks of 32 inputs.
    const PARTS: usize;

    fn scales(&self) -> &[f32; LANES];

    fn zeros(&self) -> &[u8; LANES];

    fn part(&self, part: usize) -> &Nibbles;

    fn values(values: &Self::Values, part: usize) -> &Integers;

    /// Sets the weights of a lane, which must be zero.
    fn put(&mut self, lane: usize, block: ZeroPointBlock<'_>);
}

/// Declares the tiles of one length.
macro_rules! zero_point_tile {
    ($name:ident, $parts:expr, $form:expr) => {
        #[derive(Debug, Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        pub(super) struct $name {
            scales: [f32; LANES],
            zeros: [u8; LANES],
            parts: [Nibbles; $parts],
        }

        impl ZeroPointTile for $name {
            type Values = [Integers; $parts];
            const FORM: ValueForm = $form;
            const PARTS: usize = $parts;

            #[inline(always)]
            fn scales(&self) -> &[f32; LANES] {
                &self.scales
            }

            #[inline(always)]
            fn zeros(&self) -> &[u8; LANES] {
                &self.zeros
            }

            #[inline(always)]
            fn part(&self, part: usize) -> &Nibbles {
                &self.parts[part]
            }

            #[inline(always)]
            fn values(values: &[Integers; $parts], part: usize) -> &Integers {
                &values[part]
            }

            fn put(&mut self, lane: usize, block: ZeroPointBlock<'_>) {
                (self.scales[lane], self.zeros[lane]) = (block.scale, block.zero);
                for (part, integers) in self.parts.iter_mut().zip(block.parts()) {
                    part.put(lane, &integers);
                }
            }
        }
    };
}

zero_point_tile!(TileOf4G32, 1, ValueForm::Blocks);
zero_point_tile!(TileOf4G128, MIDDLE_PARTS, ValueForm::MiddleBlocks);

/// Blocks of one of these lengths.
pub(super) struct ZeroPoints<T>(std::marker::PhantomData<T>);

impl<T: ZeroPointTile> BlockFormat for ZeroPoints<T> {
    fn put(tile: &mut T, lane: usize, block: &[u8]) {
        if let Some(block) = ZeroPointBlock::parse(block) {
            tile.put(lane, block);
        }
    }
}

impl<T: ZeroPointTile> StorageFormat for ZeroPoints<T> {
    type Step = T;
    type Value<I: Isa> = T::Values;
    const FORM: ValueForm = T::FORM;
    const INPUTS: usize = BLOCK * T::PARTS;

    fn unpack(_: IsaKind, tile: &T, lane: usize) -> impl Iterator<Item = f32> {
        let (scale, zero) = (tile.scales()[lane], i16::from(tile.zeros()[lane]));
        let integers = (0..BLOCK * T::PARTS)
            .map(move |input| tile.part(input / BLOCK).get(lane, input % BLOCK));
        integers.map(move |q| scale * f32::from(i16::from(q) - zero))
    }

    #[inline(always)]
    fn step<I: Isa, const M: usize, const N: usize>(
        isa: I,
        weights: [&T; N],
        values: &[T::Values; M],
        _at: usize,
        sums: &mut [[I::F; M]; N],
    ) {
        for n in 0..N {
            let tile = weights[n];
            let (scales, zeros) = (isa.load(tile.scales()), isa.load_u8(tile.zeros()));
            for part in 0..T::PARTS {
                let mut x = [T::values(&values[0], part); M];
                for m in 1..M {
                    x[m] = T::values(&values[m], part);
                }
                let products = isa.dot_groups::<_, GROUPS, M>((tile.part(part), 0), 0, x);
                for m in 0..M {
                    // Integers below 2²⁴: 15 · 32 · 127 and at most 255 · 32 · 127.
                    let less = isa.fma(zeros, isa.splat(-x[m].steps()), isa.to_f32(products[m]));
                    let products = isa.mul(less, isa.splat(x[m].scale()));
                    sums[n][m] = isa.fma(products, scales, sums[n][m]);
                }
            }
        }
    }
}
