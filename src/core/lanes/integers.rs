//! Exact products of small integers: weights of sixteen lanes, stored in a few bits each, times the
//! quantised values of rows.

use bytemuck::{Pod, Zeroable};

use super::{BLOCK, LANES, Quants};

/// Inputs of a group, whose bytes of one lane are side by side.
pub(crate) const FOUR: usize = 4;
/// Groups of a block.
pub(crate) const GROUPS: usize = BLOCK / FOUR;
/// A byte per input of a group and lane.
pub(crate) type GroupBytes = [u8; FOUR * LANES];

/// A row's values for the 32 inputs of a block, quantised.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Integers {
    pub(super) quants: [[i8; FOUR]; GROUPS],
    /// The sums of the first and of the second sixteen.
    totals: [i32; 2],
    /// The size of one step.
    scale: f32,
    /// The sum of all, in steps.
    total: f32,
}

impl Quants for Integers {
    #[inline(always)]
    fn new(quants: [i8; BLOCK], scale: f32) -> Self {
        let mut totals = [0; 2];
        for i in 0..BLOCK {
            totals[i / (BLOCK / 2)] += i32::from(quants[i]);
        }
        // At most 32 · 127, so both conversions are exact.
        let total = (totals[0] + totals[1]) as f32;
        Self { quants: bytemuck::cast(quants), totals, scale, total: total * scale }
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.scale
    }
}

impl Integers {
    /// The sum of the values after quantisation.
    #[inline(always)]
    pub(crate) fn total(&self) -> f32 {
        self.total
    }

    /// The sum of the values after quantisation, in steps; exact.
    #[inline(always)]
    pub(crate) fn steps(&self) -> f32 {
        self.sum::<GROUPS>(0) as f32
    }

    /// The sum of `COUNT` groups from `first`: one half of the block, or all of it.
    #[inline(always)]
    pub(super) fn sum<const COUNT: usize>(&self, first: usize) -> i32 {
        if COUNT == GROUPS { self.totals[0] + self.totals[1] } else { self.totals[first / COUNT] }
    }
}

/// The weights of sixteen lanes for a block, as bytes without a sign.
pub(crate) trait IntegerWeights {
    /// The largest weight; it exceeds 127 only if 128 stands for zero.
    const MOST: i32;

    /// The bytes of a group in one of the parts of the lanes.
    fn group<P: IntegerProducts>(&self, isa: P, part: usize, group: usize) -> P::B;
}

/// Operations on bytes, with the same result on every instruction set.
pub(crate) trait IntegerProducts: Copy {
    /// Sixteen i32.
    type I: Copy;
    /// The bytes of one register, one of the parts of a [`GroupBytes`].
    type B: Copy;

    /// A part of a group.
    fn bytes(self, from: &GroupBytes, part: usize) -> Self::B;

    /// Some bits of each byte, shifted to the right, or to the left if `shift` is negative.
    /// `mask` selects from what a byte's own bits become, never from its neighbours'.
    fn field(self, x: Self::B, shift: i32, mask: u8) -> Self::B;

    /// The bits of both.
    fn join(self, a: Self::B, b: Self::B) -> Self::B;

    /// The entry of the table for each byte, which must be less than 16.
    fn look_up(self, table: &[u8; 16], x: Self::B) -> Self::B;

    /// For each lane and row, the sum of `(weight − offset) · value` over `COUNT` groups from
    /// `first`. `COUNT` groups are half a block or a whole one.
    fn dot_groups<W: IntegerWeights, const COUNT: usize, const M: usize>(
        self,
        weights: (&W, i32),
        first: usize,
        x: [&Integers; M],
    ) -> [Self::I; M];
}
