//! NEON of AArch64, with or without its dot products: four registers hold sixteen lanes.

#![allow(unsafe_code)] // CPU intrinsics and instructions

mod integers;

use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};
use std::marker::PhantomData;

use super::{Bytes, E4M3_BITS, Fours, Isa, IsaKind, Kernel, LANES};

/// Proof that the processor has NEON and the instructions of `D`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neon<D>(PhantomData<D>);

/// Products of bytes in multiplications of 8 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongProducts;

/// Products of bytes by the dot products of ARMv8.2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DotProd;

/// How products of bytes are computed.
pub(crate) trait NeonProducts: Copy + Send + Sync {
    /// NEON with these.
    const KIND: IsaKind;

    /// [`Isa::dot`].
    ///
    /// # Safety
    /// The processor must have NEON and the instructions of these products.
    unsafe fn dot<const M: usize>(w: &Bytes, x: [&Fours; M]) -> [[int32x4_t; 4]; M];

    /// Adds the products of four bytes to each of four lanes.
    ///
    /// # Safety
    /// As [`Self::dot`].
    unsafe fn add(sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t;
}

/// Big-endian processors would read pairs and groups of weights in another order.
fn has_neon() -> bool {
    cfg!(target_endian = "little") && is_aarch64_feature_detected!("neon")
}

proof!(Neon<LongProducts>, "neon", has_neon());
proof!(Neon<DotProd>, "neon,dotprod", has_neon() && is_aarch64_feature_detected!("dotprod"));

impl NeonProducts for LongProducts {
    const KIND: IsaKind = IsaKind::Neon;

    /// Four lanes at a time, so that one register per row is enough. A sum of two products
    /// is at most 2 · 128 · 127 < 2¹⁵, so it fits 16 bits.
    #[inline(always)]
    unsafe fn dot<const M: usize>(w: &Bytes, x: [&Fours; M]) -> [[int32x4_t; 4]; M] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut sums = [[vdupq_n_s32(0); 4]; M];
            for q in 0..4 {
                for (j, w) in w.as_chunks().0.iter().enumerate() {
                    let w = weights(w, q);
                    for m in 0..M {
                        let x = broadcast(x[m].quants[j]);
                        sums[m][q] = Self::add(sums[m][q], w, x);
                    }
                }
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn add(sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
            vpadalq_s16(sum, vpaddq_s16(low, vmull_high_s8(w, x)))
        }
    }
}

impl NeonProducts for DotProd {
    const KIND: IsaKind = IsaKind::NeonDot;

    #[inline(always)]
    unsafe fn dot<const M: usize>(w: &Bytes, x: [&Fours; M]) -> [[int32x4_t; 4]; M] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut sums = [[vdupq_n_s32(0); 4]; M];
            for (j, w) in w.as_chunks().0.iter().enumerate() {
                let mut all = [weights(w, 0); 4];
                for q in 1..4 {
                    all[q] = weights(w, q);
                }
                for m in 0..M {
                    let x = broadcast(x[m].quants[j]);
                    for q in 0..4 {
                        sums[m][q] = sdot(sums[m][q], all[q], x);
                    }
                }
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn add(sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: guaranteed by the caller.
        unsafe { sdot(sum, w, x) }
    }
}

/// Adds to each lane of `sum` the products of its four bytes: the intrinsic for this is not stable.
/// Like intrinsics, it is inlined if the caller has the feature.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sum = sum;
    // SAFETY: the function has the feature, and the instruction changes only its registers.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum, a = in(vreg) a, b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// The signed weights of lanes 4q to 4q + 3: with its highest bit flipped, a byte that holds
/// a number plus 128 is that number.
///
/// # Safety
/// The processor must have NEON; `q` must be less than 4.
#[inline(always)]
unsafe fn weights(w: &[u8; 4 * LANES], q: usize) -> int8x16_t {
    // SAFETY: guaranteed by the caller; 16 of 64 bytes are read.
    unsafe {
        let bytes = vld1q_u8(w.as_ptr().add(16 * q));
        vreinterpretq_s8_u8(veorq_u8(bytes, vdupq_n_u8(0x80)))
    }
}

/// Four bytes in all lanes.
///
/// # Safety
/// The processor must have NEON.
#[inline(always)]
pub(super) unsafe fn broadcast(x: [i8; 4]) -> int8x16_t {
    // SAFETY: guaranteed by the caller.
    unsafe { vreinterpretq_s8_s32(vdupq_n_s32(i32::from_ne_bytes(x.map(|b| b as u8)))) }
}

/// The values of the lower, then of the upper four f16: the intrinsics for this are not
/// stable in all versions of Rust.
///
/// # Safety
/// The processor must have NEON.
#[inline(always)]
unsafe fn from_f16(x: uint16x8_t) -> [float32x4_t; 2] {
    let (low, high): (float32x4_t, float32x4_t);
    // SAFETY: the caller guarantees the instructions, which change only their registers.
    unsafe {
        asm!(
            "fcvtl {low:v}.4s, {x:v}.4h",
            "fcvtl2 {high:v}.4s, {x:v}.8h",
            low = out(vreg) low, high = lateout(vreg) high, x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    [low, high]
}

/// Calls an intrinsic for each four of the lanes.
macro_rules! fours {
    ($intrinsic:path, $($x:ident),+) => {
        unsafe { [
            $intrinsic($($x[0]),+),
            $intrinsic($($x[1]),+),
            $intrinsic($($x[2]),+),
            $intrinsic($($x[3]),+),
        ] }
    };
}

// SAFETY, for every block below and those of the macro: `self` proves that the processor has
// the instructions, and every pointer comes from a reference to at least as many bytes as
// they read or write; they require no more alignment than its type has.
impl<D: NeonProducts> Isa for Neon<D> {
    const KIND: IsaKind = D::KIND;
    type F = [float32x4_t; 4];
    type Quants = Fours;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [unsafe { vdupq_n_f32(x) }; 4]
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::F {
        let x = x.as_ptr();
        unsafe { [vld1q_f32(x), vld1q_f32(x.add(4)), vld1q_f32(x.add(8)), vld1q_f32(x.add(12))] }
    }
    #[inline(always)]
    fn store(self, x: Self::F, to: &mut [f32; LANES]) {
        for q in 0..4 {
            unsafe { vst1q_f32(to.as_mut_ptr().add(4 * q), x[q]) };
        }
    }
    #[inline(always)]
    fn load_f16(self, x: &[u16; LANES]) -> Self::F {
        let x = x.as_ptr();
        let [low, high] = unsafe { [from_f16(vld1q_u16(x)), from_f16(vld1q_u16(x.add(8)))] };
        [low[0], low[1], high[0], high[1]]
    }
    #[inline(always)]
    fn load_e4m3(self, x: &[u8; LANES]) -> Self::F {
        let [low, high] = unsafe {
            let x = vreinterpretq_s8_u8(vld1q_u8(x.as_ptr()));
            let mask = vdupq_n_u16(E4M3_BITS);
            let low = vreinterpretq_u16_s16(vshll_n_s8::<7>(vget_low_s8(x)));
            let high = vreinterpretq_u16_s16(vshll_high_n_s8::<7>(x));
            [from_f16(vandq_u16(low, mask)), from_f16(vandq_u16(high, mask))]
        };
        [low[0], low[1], high[0], high[1]]
    }
    #[inline(always)]
    fn load_u8(self, x: &[u8; LANES]) -> Self::F {
        let x = unsafe {
            let x = vld1q_u8(x.as_ptr());
            let (low, high) = (vmovl_u8(vget_low_u8(x)), vmovl_high_u8(x));
            let low = [vmovl_u16(vget_low_u16(low)), vmovl_high_u16(low)];
            let high = [vmovl_u16(vget_low_u16(high)), vmovl_high_u16(high)];
            [low[0], low[1], high[0], high[1]]
        };
        fours!(vcvtq_f32_u32, x)
    }
    #[inline(always)]
    fn load_i8(self, x: &[u8; LANES]) -> Self::F {
        let x = unsafe {
            let x = vreinterpretq_s8_u8(vld1q_u8(x.as_ptr()));
            let (low, high) = (vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x));
            let low = [vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low)];
            let high = [vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)];
            [low[0], low[1], high[0], high[1]]
        };
        fours!(vcvtq_f32_s32, x)
    }
    #[inline(always)]
    fn load_bf16_first(self, x: &[[u16; 2]; LANES]) -> Self::F {
        let pairs = unsafe { load_pairs(x) };
        let first = fours!(vshlq_n_u32::<16>, pairs);
        fours!(vreinterpretq_f32_u32, first)
    }
    #[inline(always)]
    fn load_bf16_second(self, x: &[[u16; 2]; LANES]) -> Self::F {
        let (pairs, upper) = unsafe { (load_pairs(x), [vdupq_n_u32(0xffff_0000); 4]) };
        let second = fours!(vandq_u32, pairs, upper);
        fours!(vreinterpretq_f32_u32, second)
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        fours!(vaddq_f32, a, b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        fours!(vsubq_f32, a, b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        fours!(vmulq_f32, a, b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        fours!(vdivq_f32, a, b)
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        fours!(vfmaq_f32, c, a, b)
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        fours!(vmaxq_f32, a, b)
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        fours!(vminq_f32, a, b)
    }
    #[inline(always)]
    fn exp2_integer(self, n: Self::F) -> Self::F {
        fours!(exp2_integer, n)
    }
    #[inline(always)]
    fn to_f32(self, x: Self::I) -> Self::F {
        fours!(vcvtq_f32_s32, x)
    }
    #[inline(always)]
    fn dot<const M: usize>(self, w: &Bytes, x: [&Fours; M]) -> [Self::I; M] {
        unsafe { D::dot(w, x) }
    }
}

/// Sixteen pairs, the first of each in the lower half of a lane.
///
/// # Safety
/// The processor must have NEON.
#[inline(always)]
unsafe fn load_pairs(x: &[[u16; 2]; LANES]) -> [uint32x4_t; 4] {
    let x = x.as_ptr().cast::<u16>();
    // SAFETY: guaranteed by the caller; 8 of 32 numbers are read at a time.
    let x =
        unsafe { [vld1q_u16(x), vld1q_u16(x.add(8)), vld1q_u16(x.add(16)), vld1q_u16(x.add(24))] };
    fours!(vreinterpretq_u32_u16, x)
}

/// `2ⁿ` in four lanes.
///
/// # Safety
/// The processor must have NEON.
#[inline(always)]
unsafe fn exp2_integer(n: float32x4_t) -> float32x4_t {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let biased = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
        vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
    }
}
