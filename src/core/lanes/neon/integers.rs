//! Products of small integers.

#![allow(unsafe_code)] // CPU intrinsics

use std::arch::aarch64::*;

use super::{Neon, NeonProducts, broadcast};
use crate::core::lanes::integers::{GroupBytes, IntegerProducts, IntegerWeights, Integers};

// SAFETY, for every block below: `self` proves that the processor has the instructions, and
// every pointer comes from a reference to at least as many bytes as they read; they require
// no alignment.
impl<D: NeonProducts> IntegerProducts for Neon<D> {
    type I = [int32x4_t; 4];
    type B = uint8x16_t;

    #[inline(always)]
    fn bytes(self, from: &GroupBytes, part: usize) -> uint8x16_t {
        let (quarters, _) = from.as_chunks::<16>();
        unsafe { vld1q_u8(quarters[part].as_ptr()) }
    }
    #[inline(always)]
    fn field(self, x: uint8x16_t, shift: i32, mask: u8) -> uint8x16_t {
        // A negative shift to the left is one to the right.
        unsafe { vandq_u8(vshlq_u8(x, vdupq_n_s8(-shift as i8)), vdupq_n_u8(mask)) }
    }
    #[inline(always)]
    fn join(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        unsafe { vorrq_u8(a, b) }
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], x: uint8x16_t) -> uint8x16_t {
        unsafe { vqtbl1q_u8(vld1q_u8(table.as_ptr()), x) }
    }
    #[inline(always)]
    fn dot_groups<W: IntegerWeights, const COUNT: usize, const M: usize>(
        self,
        (w, offset): (&W, i32),
        first: usize,
        x: [&Integers; M],
    ) -> [[int32x4_t; 4]; M] {
        // Bytes with a sign: weights that may be larger than 127 are flipped, which
        // subtracts their offset.
        let large = const { W::MOST > i8::MAX as i32 };
        let mut sums = [[unsafe { vdupq_n_s32(0) }; 4]; M];
        #[allow(clippy::needless_range_loop)] // `part` also selects weights
        for part in 0..4 {
            for m in 0..M {
                let start = if large { 0 } else { -offset * x[m].sum::<COUNT>(first) };
                sums[m][part] = unsafe { vdupq_n_s32(start) };
            }
            for group in first..first + COUNT {
                let w = w.group(self, part, group);
                let w = if large { unsafe { veorq_u8(w, vdupq_n_u8(0x80)) } } else { w };
                for m in 0..M {
                    unsafe {
                        let (w, x) = (vreinterpretq_s8_u8(w), broadcast(x[m].quants[group]));
                        sums[m][part] = D::add(sums[m][part], w, x);
                    }
                }
            }
        }
        sums
    }
}
