//! AVX2 with FMA and F16C, with or without VNNI: two registers hold sixteen lanes.

#![allow(unsafe_code)] // CPU intrinsics

mod integers;

use std::arch::x86_64::*;
use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};

use self::integers::{SmallBytes, any_bytes, small_bytes};
use super::integers::IntegerWeights;
use super::{BLOCK, Bytes, E4M3_BITS, Fours, Isa, IsaKind, Kernel, LANES, Quants};

/// Proof that the processor has AVX2, FMA, F16C and the instructions of `D`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2<D>(PhantomData<D>);

/// Products of bytes in multiplications of 16 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Widening;

/// Products of bytes by AVX-VNNI.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vnni;

/// How products of bytes are computed.
pub(crate) trait ByteProducts: Copy + Send + Sync {
    /// AVX2 with these.
    const KIND: IsaKind;
    /// [`Isa::Quants`].
    type Quants: Quants;

    /// [`Isa::dot`].
    ///
    /// # Safety
    /// The processor must have AVX2 and the instructions of these products.
    unsafe fn dot<const M: usize>(w: &Bytes, x: [&Self::Quants; M]) -> [[__m256i; 2]; M];

    /// The products of eight lanes in [`dot_groups`](super::integers::IntegerProducts::dot_groups);
    /// `start` compensates for the offset of the weights.
    ///
    /// # Safety
    /// The processor must have AVX2 and the instructions of these products.
    unsafe fn groups<W: IntegerWeights, const COUNT: usize>(
        start: i32,
        w: &[__m256i; COUNT],
        x: &SmallBytes<COUNT>,
    ) -> __m256i;
}

/// Values widened to 16 bits, two at a time.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Twos {
    quants: [[i16; 2]; BLOCK / 2],
    scale: f32,
}

impl Quants for Twos {
    #[inline(always)]
    fn new(quants: [i8; BLOCK], scale: f32) -> Self {
        let mut wide = [0; BLOCK];
        for i in 0..BLOCK {
            wide[i] = i16::from(quants[i]);
        }
        Self { quants: bytemuck::cast(wide), scale }
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.scale
    }
}

fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

proof!(Avx2<Widening>, "avx2,fma,f16c", has_avx2());
proof!(Avx2<Vnni>, "avx2,fma,f16c,avxvnni", has_avx2() && is_x86_feature_detected!("avxvnni"));

impl ByteProducts for Widening {
    const KIND: IsaKind = IsaKind::Avx2;
    type Quants = Twos;

    #[inline(always)]
    unsafe fn dot<const M: usize>(w: &Bytes, x: [&Twos; M]) -> [[__m256i; 2]; M] {
        // SAFETY: the caller guarantees the instructions; 16 of the 32 bytes of `w` are
        // read, from their beginning or their middle.
        unsafe {
            let mut sums = [[_mm256_setzero_si256(); 2]; M];
            for (j, w) in w.as_chunks::<{ 2 * LANES }>().0.iter().enumerate() {
                let halves = w.as_ptr().cast::<__m128i>();
                let low = _mm256_cvtepi8_epi16(_mm_loadu_si128(halves));
                let high = _mm256_cvtepi8_epi16(_mm_loadu_si128(halves.add(1)));
                for m in 0..M {
                    let x = _mm256_set1_epi32(bytemuck::cast(x[m].quants[j]));
                    sums[m][0] = _mm256_add_epi32(sums[m][0], _mm256_madd_epi16(low, x));
                    sums[m][1] = _mm256_add_epi32(sums[m][1], _mm256_madd_epi16(high, x));
                }
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn groups<W: IntegerWeights, const COUNT: usize>(
        start: i32,
        w: &[__m256i; COUNT],
        x: &SmallBytes<COUNT>,
    ) -> __m256i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if const { W::MOST > i8::MAX as i32 } {
                return any_bytes(w, x);
            }
            small_bytes::<W, COUNT>(_mm256_set1_epi32(start), w, x)
        }
    }
}

impl ByteProducts for Vnni {
    const KIND: IsaKind = IsaKind::AvxVnni;
    type Quants = Fours;

    /// Eight lanes at a time, so that one register per row is enough.
    #[inline(always)]
    unsafe fn dot<const M: usize>(w: &Bytes, x: [&Fours; M]) -> [[__m256i; 2]; M] {
        // SAFETY: the caller guarantees the instructions; 32 of the 64 bytes of `w` are
        // read, from their beginning or their middle.
        unsafe {
            let mut sums = [[_mm256_setzero_si256(); 2]; M];
            #[allow(clippy::needless_range_loop)] // `half` also selects weights
            for half in 0..2 {
                for m in 0..M {
                    sums[m][half] = _mm256_set1_epi32(x[m].correction);
                }
                for (j, w) in w.as_chunks::<{ 4 * LANES }>().0.iter().enumerate() {
                    let w = _mm256_loadu_si256(w.as_ptr().cast::<__m256i>().add(half));
                    for m in 0..M {
                        let x = _mm256_set1_epi32(bytemuck::cast(x[m].quants[j]));
                        sums[m][half] = _mm256_dpbusd_avx_epi32(sums[m][half], w, x);
                    }
                }
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn groups<W: IntegerWeights, const COUNT: usize>(
        start: i32,
        w: &[__m256i; COUNT],
        x: &SmallBytes<COUNT>,
    ) -> __m256i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut sum = _mm256_set1_epi32(start);
            for group in 0..COUNT {
                let x = _mm256_set1_epi32(bytemuck::cast(x[group]));
                sum = _mm256_dpbusd_avx_epi32(sum, w[group], x);
            }
            sum
        }
    }
}

// SAFETY, for every block below: `self` proves that the processor has the instructions,
// and every pointer comes from a reference to at least as many bytes as they read or
// write; they require no alignment.
impl<D: ByteProducts> Isa for Avx2<D> {
    const KIND: IsaKind = D::KIND;
    type F = [__m256; 2];
    type Quants = D::Quants;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [unsafe { _mm256_set1_ps(x) }; 2]
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::F {
        unsafe { [_mm256_loadu_ps(x.as_ptr()), _mm256_loadu_ps(x.as_ptr().add(8))] }
    }
    #[inline(always)]
    fn store(self, x: Self::F, to: &mut [f32; LANES]) {
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), x[0]);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), x[1]);
        }
    }
    #[inline(always)]
    fn load_f16(self, x: &[u16; LANES]) -> Self::F {
        unsafe {
            let halves = x.as_ptr().cast::<__m128i>();
            [
                _mm256_cvtph_ps(_mm_loadu_si128(halves)),
                _mm256_cvtph_ps(_mm_loadu_si128(halves.add(1))),
            ]
        }
    }
    #[inline(always)]
    fn load_e4m3(self, x: &[u8; LANES]) -> Self::F {
        unsafe {
            let wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(x.as_ptr().cast()));
            let mask = _mm256_set1_epi16(E4M3_BITS.cast_signed());
            let bits = _mm256_and_si256(_mm256_slli_epi16::<7>(wide), mask);
            let (low, high) = (_mm256_castsi256_si128(bits), _mm256_extracti128_si256::<1>(bits));
            [_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)]
        }
    }
    #[inline(always)]
    fn load_u8(self, x: &[u8; LANES]) -> Self::F {
        unsafe {
            let x = _mm_loadu_si128(x.as_ptr().cast());
            let high = _mm_unpackhi_epi64(x, x);
            let (low, high) = (_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(high));
            [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)]
        }
    }
    #[inline(always)]
    fn load_i8(self, x: &[u8; LANES]) -> Self::F {
        unsafe {
            let x = _mm_loadu_si128(x.as_ptr().cast());
            let high = _mm_unpackhi_epi64(x, x);
            let (low, high) = (_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(high));
            [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)]
        }
    }
    #[inline(always)]
    fn load_bf16_first(self, x: &[[u16; 2]; LANES]) -> Self::F {
        unsafe {
            let eights = x.as_ptr().cast::<__m256i>();
            let low = _mm256_slli_epi32::<16>(_mm256_loadu_si256(eights));
            let high = _mm256_slli_epi32::<16>(_mm256_loadu_si256(eights.add(1)));
            [_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)]
        }
    }
    #[inline(always)]
    fn load_bf16_second(self, x: &[[u16; 2]; LANES]) -> Self::F {
        unsafe {
            let eights = x.as_ptr().cast::<__m256i>();
            let upper = _mm256_set1_epi32(0xffff_0000_u32 as i32);
            let low = _mm256_and_si256(_mm256_loadu_si256(eights), upper);
            let high = _mm256_and_si256(_mm256_loadu_si256(eights.add(1)), upper);
            [_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)]
        }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { [_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { [_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { [_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { [_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn exp2_integer(self, n: Self::F) -> Self::F {
        unsafe { [exp2_integer(n[0]), exp2_integer(n[1])] }
    }
    #[inline(always)]
    fn to_f32(self, x: Self::I) -> Self::F {
        unsafe { [_mm256_cvtepi32_ps(x[0]), _mm256_cvtepi32_ps(x[1])] }
    }
    #[inline(always)]
    fn dot<const M: usize>(self, w: &Bytes, x: [&D::Quants; M]) -> [Self::I; M] {
        unsafe { D::dot(w, x) }
    }
}

/// `2ⁿ` in eight lanes.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn exp2_integer(n: __m256) -> __m256 {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let biased = _mm256_add_epi32(_mm256_cvttps_epi32(n), _mm256_set1_epi32(127));
        _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
    }
}
