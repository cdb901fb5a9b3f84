//! AVX2 with FMA and F16C: two registers hold sixteen lanes.

#![allow(unsafe_code)] // CPU intrinsics

use std::arch::x86_64::*;

use super::{Isa, IsaKind, Kernel, LANES};

/// Proof that the processor has AVX2, FMA and F16C.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The proof, if the processor has these features.
    pub(crate) fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Self(()))
    }

    /// Compiles and runs a kernel with these instructions.
    pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn inside<K: Kernel>(isa: Avx2, kernel: K) -> K::Output {
            kernel.run(isa)
        }
        // SAFETY: `self` exists only where the processor has these features.
        unsafe { inside(self, kernel) }
    }
}

// SAFETY, for every block below: `self` proves that the processor has the instructions,
// and every pointer comes from a reference to at least as many bytes as they read or
// write; they require no alignment.
impl Isa for Avx2 {
    const KIND: IsaKind = IsaKind::Avx2;
    const REGISTERS: usize = 8;
    type F = [__m256; 2];
    type I = [__m256i; 2];

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
    fn splat_i32(self, x: i32) -> Self::I {
        [unsafe { _mm256_set1_epi32(x) }; 2]
    }
    #[inline(always)]
    fn to_f32(self, x: Self::I) -> Self::F {
        unsafe { [_mm256_cvtepi32_ps(x[0]), _mm256_cvtepi32_ps(x[1])] }
    }
    #[inline(always)]
    fn dot4(self, sum: Self::I, w: &[[u8; 4]; LANES], x: [i8; 4]) -> Self::I {
        let (low, high) = w.split_at(LANES / 2);
        unsafe {
            let x = _mm256_set1_epi64x(widened(x));
            let sums = [dot_eight(low, x), dot_eight(high, x)];
            [_mm256_add_epi32(sum[0], sums[0]), _mm256_add_epi32(sum[1], sums[1])]
        }
    }
    #[inline(always)]
    fn prefetch<T>(self, from: &T, bytes: usize) {
        let address = std::ptr::from_ref(from).cast::<i8>().wrapping_add(bytes);
        // A prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) }
    }
    #[inline(always)]
    fn prefetch_far<T>(self, from: &T, bytes: usize) {
        let address = std::ptr::from_ref(from).cast::<i8>().wrapping_add(bytes);
        // As above.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address) }
    }
}

/// Four bytes as four numbers of 16 bits.
#[inline(always)]
fn widened(x: [i8; 4]) -> i64 {
    let mut all = 0;
    for (i, b) in x.into_iter().enumerate() {
        all |= (i64::from(b) & 0xffff) << (16 * i);
    }
    all
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

/// The products of eight lanes with four numbers of 16 bits, repeated in `x`.
///
/// With 16-bit inputs, every product and every sum of two products is exact. The
/// shorter sequence with `maddubs` is not exact: it saturates.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn dot_eight(w: &[[u8; 4]], x: __m256i) -> __m256i {
    assert_eq!(w.len(), 8, "bytes of eight lanes");
    // SAFETY: 32 bytes are read, all of them in `w`; the caller guarantees AVX2.
    unsafe {
        let bytes = w.as_ptr().cast::<__m128i>();
        let first = _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(bytes)), x);
        let second = _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(bytes.add(1))), x);
        // The horizontal addition works on the two halves of a register separately,
        // which leaves the sums out of order.
        _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_hadd_epi32(first, second))
    }
}
