//! AVX-512 with VNNI: one register holds sixteen lanes.

#![allow(unsafe_code)] // CPU intrinsics

use std::arch::x86_64::*;

use super::integers::{GroupBytes, IntegerProducts, IntegerWeights, Integers};
use super::{Bytes, E4M3_BITS, Fours, Isa, IsaKind, Kernel, LANES};

/// Proof that the processor has AVX-512 F, BW, VL and VNNI.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512(());

fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
}

proof!(Avx512, "avx512f,avx512bw,avx512vl,avx512vnni", has_avx512());

// SAFETY, for every block below: `self` proves that the processor has the instruction,
// and every pointer comes from a reference to at least as many bytes as it reads or
// writes; it requires no alignment.
impl Isa for Avx512 {
    const KIND: IsaKind = IsaKind::Avx512;
    type F = __m512;
    type Quants = Fours;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::F {
        unsafe { _mm512_loadu_ps(x.as_ptr()) }
    }
    #[inline(always)]
    fn store(self, x: Self::F, to: &mut [f32; LANES]) {
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
    }
    #[inline(always)]
    fn load_f16(self, x: &[u16; LANES]) -> Self::F {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_e4m3(self, x: &[u8; LANES]) -> Self::F {
        unsafe {
            let wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(x.as_ptr().cast()));
            let mask = _mm256_set1_epi16(E4M3_BITS.cast_signed());
            _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16::<7>(wide), mask))
        }
    }
    #[inline(always)]
    fn load_u8(self, x: &[u8; LANES]) -> Self::F {
        unsafe {
            let x = _mm_loadu_si128(x.as_ptr().cast());
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(x))
        }
    }
    #[inline(always)]
    fn load_i8(self, x: &[u8; LANES]) -> Self::F {
        unsafe {
            let x = _mm_loadu_si128(x.as_ptr().cast());
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x))
        }
    }
    #[inline(always)]
    fn load_bf16_first(self, x: &[[u16; 2]; LANES]) -> Self::F {
        unsafe {
            let pairs = _mm512_loadu_si512(x.as_ptr().cast());
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs))
        }
    }
    #[inline(always)]
    fn load_bf16_second(self, x: &[[u16; 2]; LANES]) -> Self::F {
        unsafe {
            let pairs = _mm512_loadu_si512(x.as_ptr().cast());
            let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            _mm512_castsi512_ps(_mm512_and_si512(pairs, upper))
        }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn exp2_integer(self, n: Self::F) -> Self::F {
        unsafe {
            let biased = _mm512_add_epi32(_mm512_cvttps_epi32(n), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        }
    }
    #[inline(always)]
    fn to_f32(self, x: Self::I) -> Self::F {
        unsafe { _mm512_cvtepi32_ps(x) }
    }
    #[inline(always)]
    fn dot<const M: usize>(self, w: &Bytes, x: [&Fours; M]) -> [Self::I; M] {
        unsafe {
            let mut sums = [_mm512_setzero_si512(); M];
            for m in 0..M {
                sums[m] = _mm512_set1_epi32(x[m].correction);
            }
            for (j, w) in w.as_chunks::<64>().0.iter().enumerate() {
                let w = _mm512_loadu_si512(w.as_ptr().cast());
                for m in 0..M {
                    let x = _mm512_set1_epi32(i32::from_ne_bytes(x[m].quants[j].map(|b| b as u8)));
                    sums[m] = _mm512_dpbusd_epi32(sums[m], w, x);
                }
            }
            sums
        }
    }
}

impl IntegerProducts for Avx512 {
    type I = __m512i;
    type B = __m512i;

    #[inline(always)]
    fn bytes(self, from: &GroupBytes, _: usize) -> __m512i {
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn field(self, x: __m512i, shift: i32, mask: u8) -> __m512i {
        unsafe {
            let shifted = match shift {
                0 => x,
                1.. => _mm512_srl_epi16(x, _mm_cvtsi32_si128(shift)),
                _ => _mm512_sll_epi16(x, _mm_cvtsi32_si128(-shift)),
            };
            _mm512_and_si512(shifted, _mm512_set1_epi8(mask.cast_signed()))
        }
    }
    #[inline(always)]
    fn join(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], x: __m512i) -> __m512i {
        unsafe {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), x)
        }
    }
    #[inline(always)]
    fn dot_groups<W: IntegerWeights, const COUNT: usize, const M: usize>(
        self,
        (w, offset): (&W, i32),
        first: usize,
        x: [&Integers; M],
    ) -> [__m512i; M] {
        let mut sums = [unsafe { _mm512_setzero_si512() }; M];
        for m in 0..M {
            sums[m] = unsafe { _mm512_set1_epi32(-offset * x[m].sum::<COUNT>(first)) };
        }
        for group in first..first + COUNT {
            let w = w.group(self, 0, group);
            for m in 0..M {
                unsafe {
                    let x = _mm512_set1_epi32(bytemuck::cast(x[m].quants[group]));
                    sums[m] = _mm512_dpbusd_epi32(sums[m], w, x);
                }
            }
        }
        sums
    }
}
