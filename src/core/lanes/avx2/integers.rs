//! Products of small integers.

#![allow(unsafe_code)] // CPU intrinsics

use std::arch::x86_64::*;

use super::{Avx2, ByteProducts};
use crate::core::lanes::integers::{FOUR, GroupBytes, IntegerProducts, IntegerWeights, Integers};

/// The values of some groups.
pub(super) type SmallBytes<const COUNT: usize> = [[i8; FOUR]; COUNT];

/// Four values in all lanes.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn broadcast(x: [i8; FOUR]) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm256_set1_epi32(bytemuck::cast(x)) }
}

/// Adds products with weights of at most `MOST`, which is less than 128, to a sum: as many
/// sums of two products as fit 16 bits are added before they are widened.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
pub(super) unsafe fn small_bytes<W: IntegerWeights, const COUNT: usize>(
    mut sum: __m256i,
    w: &[__m256i; COUNT],
    x: &SmallBytes<COUNT>,
) -> __m256i {
    let together = const { i16::MAX as usize / (2 * 127 * W::MOST as usize) };
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut group = 0;
        while group < COUNT {
            let mut short = _mm256_maddubs_epi16(w[group], broadcast(x[group]));
            let mut next = group + 1;
            while next < COUNT && next < group + together {
                let pairs = _mm256_maddubs_epi16(w[next], broadcast(x[next]));
                short = _mm256_add_epi16(short, pairs);
                next += 1;
            }
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(short, _mm256_set1_epi16(1)));
            group = next;
        }
        sum
    }
}

/// The sum of products with any weights less 128. A sum of two products is at most
/// 2 · 128 · 127 < 2¹⁵, so it fits 16 bits; the magnitude 128 fits a byte without a sign.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
pub(super) unsafe fn any_bytes<const COUNT: usize>(
    w: &[__m256i; COUNT],
    x: &SmallBytes<COUNT>,
) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut sum = _mm256_setzero_si256();
        for group in 0..COUNT {
            let w = _mm256_xor_si256(w[group], _mm256_set1_epi8(-128));
            let x = _mm256_sign_epi8(broadcast(x[group]), w);
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), x);
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
        sum
    }
}

// SAFETY, for every block below: `self` proves that the processor has the instructions, and
// every pointer comes from a reference to at least as many bytes as they read; they require
// no alignment.
impl<D: ByteProducts> IntegerProducts for Avx2<D> {
    type I = [__m256i; 2];
    type B = __m256i;

    #[inline(always)]
    fn bytes(self, from: &GroupBytes, part: usize) -> __m256i {
        let (halves, _) = from.as_chunks::<32>();
        unsafe { _mm256_loadu_si256(halves[part].as_ptr().cast()) }
    }
    #[inline(always)]
    fn field(self, x: __m256i, shift: i32, mask: u8) -> __m256i {
        unsafe {
            let shifted = match shift {
                0 => x,
                1.. => _mm256_srl_epi16(x, _mm_cvtsi32_si128(shift)),
                _ => _mm256_sll_epi16(x, _mm_cvtsi32_si128(-shift)),
            };
            _mm256_and_si256(shifted, _mm256_set1_epi8(mask.cast_signed()))
        }
    }
    #[inline(always)]
    fn join(self, a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], x: __m256i) -> __m256i {
        unsafe {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), x)
        }
    }
    #[inline(always)]
    fn dot_groups<W: IntegerWeights, const COUNT: usize, const M: usize>(
        self,
        (w, offset): (&W, i32),
        first: usize,
        x: [&Integers; M],
    ) -> [[__m256i; 2]; M] {
        let mut sums = [[unsafe { _mm256_setzero_si256() }; 2]; M];
        #[allow(clippy::needless_range_loop)] // `part` also selects weights
        for part in 0..2 {
            let mut weights = [unsafe { _mm256_setzero_si256() }; COUNT];
            for group in 0..COUNT {
                weights[group] = w.group(self, part, first + group);
            }
            for m in 0..M {
                let start = -offset * x[m].sum::<COUNT>(first);
                if let Some(values) = x[m].quants[first..].first_chunk() {
                    sums[m][part] = unsafe { D::groups::<W, COUNT>(start, &weights, values) };
                }
            }
        }
        sums
    }
}
