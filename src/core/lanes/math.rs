//! Elementary functions on lanes, with the same bits on every instruction set.

use super::{Isa, LANES};

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts. The first has so few bits that its product with any exponent is
/// exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// Inputs are clamped to this range. The results at its ends are 0 and nearly the
/// largest f32.
const RANGE: [f32; 2] = [-88.0, 88.376_26];
/// Minimax polynomial of (eʳ − 1 − r) / r² on |r| ≤ ln 2 / 2, highest first
/// (Moshier, Cephes, `expf`).
const TERMS: [f32; 6] =
    [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
/// Adding and then subtracting this rounds numbers of magnitude below 2²² to the
/// nearest integer, ties to even.
const ROUND: f32 = 12_582_912.0;

/// The parts n, r and t of eˣ = 2ⁿ (1 + r + t r²): n is an integer, and r is
/// x − n ln 2.
#[inline(always)]
fn parts<I: Isa>(isa: I, x: I::F) -> [I::F; 3] {
    let shifted = isa.fma(x, isa.splat(LOG2_E), isa.splat(ROUND));
    let n = isa.sub(shifted, isa.splat(ROUND));
    let r = isa.fma(n, isa.splat(-LN_2[0]), x);
    let r = isa.fma(n, isa.splat(-LN_2[1]), r);
    let mut tail = isa.splat(TERMS[0]);
    for &term in &TERMS[1..] {
        tail = isa.fma(tail, r, isa.splat(term));
    }
    [n, r, tail]
}

/// eˣ with an error below 2 units in the last place for x in −87.3 … 88.4; 0 for x
/// below −87.7, and constant above the upper end.
#[inline(always)]
pub(crate) fn exp<I: Isa>(isa: I, x: I::F) -> I::F {
    let x = isa.max(isa.splat(RANGE[0]), isa.min(isa.splat(RANGE[1]), x));
    let [n, r, tail] = parts(isa, x);
    let one_plus_r = isa.add(r, isa.splat(1.0));
    let mantissa = isa.fma(tail, isa.mul(r, r), one_plus_r);
    isa.mul(mantissa, isa.exp2_integer(n))
}

/// tanh x with an error below 4 units in the last place, also for x near 0: from
/// e²ˣ − 1, which is computed without forming e²ˣ.
#[inline(always)]
pub(crate) fn tanh<I: Isa>(isa: I, x: I::F) -> I::F {
    // Beyond these, tanh is ±1 in f32.
    let x = isa.max(isa.splat(-10.0), isa.min(isa.splat(10.0), x));
    let [n, r, tail] = parts(isa, isa.add(x, x));
    let small = isa.fma(tail, isa.mul(r, r), r);
    let power = isa.exp2_integer(n);
    let expm1 = isa.fma(power, small, isa.sub(power, isa.splat(1.0)));
    isa.div(expm1, isa.add(expm1, isa.splat(2.0)))
}

/// The approximation of GELU by tanh, x/2 · (1 + tanh u), as x / (1 + e⁻²ᵘ), where
/// u = √(2/π) (x + 0.044715 x³).
#[inline(always)]
pub(crate) fn gelu_tanh<I: Isa>(isa: I, x: I::F) -> I::F {
    let cubic = isa.mul(isa.mul(x, x), x);
    let sum = isa.fma(isa.splat(0.044_715), cubic, x);
    let e = exp(isa, isa.mul(isa.splat(-1.595_769_2), sum));
    isa.div(x, isa.add(isa.splat(1.0), e))
}

/// x / (1 + e⁻ˣ), the activation of the feed-forward blocks (SiLU).
#[inline(always)]
pub(crate) fn silu<I: Isa>(isa: I, x: I::F) -> I::F {
    let e = exp(isa, isa.sub(isa.splat(0.0), x));
    isa.div(x, isa.add(isa.splat(1.0), e))
}

/// The sum of numbers, lane by lane and then as [`sum`].
#[inline(always)]
pub(crate) fn total<I: Isa>(isa: I, x: &[f32]) -> f32 {
    let mut lanes = isa.splat(0.0);
    for part in x.chunks(LANES) {
        lanes = isa.add(lanes, load_part(isa, part));
    }
    sum(isa, lanes)
}

/// x / (1 + e^−αx).
#[inline(always)]
pub(crate) fn swish<I: Isa>(isa: I, x: I::F, alpha: f32) -> I::F {
    let e = exp(isa, isa.mul(isa.splat(-alpha), x));
    isa.div(x, isa.add(isa.splat(1.0), e))
}

/// The sum of all lanes; the upper half is added to the lower half until one lane is
/// left.
#[inline(always)]
pub(crate) fn sum<I: Isa>(isa: I, x: I::F) -> f32 {
    let mut lanes = [0.0; LANES];
    isa.store(x, &mut lanes);
    sum_of(lanes)
}

/// As [`sum`], for lanes in memory.
#[inline(always)]
pub(crate) fn sum_of(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The largest of all lanes, none of them NaN.
#[inline(always)]
pub(crate) fn largest_of(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            let other = lanes[i + width];
            lanes[i] = if other > lanes[i] { other } else { lanes[i] };
        }
        width /= 2;
    }
    lanes[0]
}

/// The largest number; −∞ if there is none.
#[inline(always)]
pub(crate) fn largest<I: Isa>(isa: I, x: &[f32]) -> f32 {
    let (whole, rest) = x.as_chunks::<LANES>();
    let mut most = isa.splat(f32::NEG_INFINITY);
    for lanes in whole {
        most = isa.max(most, isa.load(lanes));
    }
    let mut lanes = [0.0; LANES];
    isa.store(most, &mut lanes);
    lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Loads up to sixteen numbers, followed by zeros.
#[inline(always)]
pub(crate) fn load_part<I: Isa>(isa: I, x: &[f32]) -> I::F {
    match x.try_into() {
        Ok(whole) => isa.load(whole),
        Err(_) => {
            let mut lanes = [0.0; LANES];
            lanes[..x.len()].copy_from_slice(x);
            isa.load(&lanes)
        }
    }
}

/// Σ xᵢ²; lane `i mod 16` accumulates its terms in ascending order.
#[inline(always)]
pub(crate) fn sum_of_squares<I: Isa>(isa: I, x: &[f32]) -> f32 {
    let mut total = isa.splat(0.0);
    for part in x.chunks(LANES) {
        let part = load_part(isa, part);
        total = isa.fma(part, part, total);
    }
    sum(isa, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::lanes::{IsaKind, Kernel};

    /// tanh and the approximation of GELU of some numbers.
    struct Both<'a>(&'a [[f32; LANES]]);

    impl Kernel for Both<'_> {
        type Output = Vec<[[f32; LANES]; 2]>;

        #[inline(always)]
        fn run<I: Isa>(self, isa: I) -> Self::Output {
            let mut found = Vec::with_capacity(self.0.len());
            for x in self.0 {
                let mut both = [[0.0; LANES]; 2];
                isa.store(tanh(isa, isa.load(x)), &mut both[0]);
                isa.store(gelu_tanh(isa, isa.load(x)), &mut both[1]);
                found.push(both);
            }
            found
        }
    }

    /// Numbers of all magnitudes from 1e-12 to 1e4, and both zeros.
    fn numbers() -> Vec<f32> {
        let powers = (-120_000..40_000).map(|i| libm::exp10(f64::from(i) / 1e4) as f32);
        let both_signs = powers.flat_map(|x| [x, -x]);
        [0.0, -0.0].into_iter().chain(both_signs).collect()
    }

    fn of(isa: IsaKind, x: &[f32]) -> [Vec<f32>; 2] {
        let found = isa.run(Both(x.as_chunks().0));
        [0, 1].map(|which| found.iter().flat_map(|both| both[which]).collect())
    }

    #[test]
    fn tanh_and_gelu_are_accurate_with_the_same_bits_everywhere() {
        let x = numbers();
        let [tanh, gelu] = of(IsaKind::Portable, &x);
        for ((x, tanh), gelu) in x.iter().map(|&x| f64::from(x)).zip(&tanh).zip(&gelu) {
            let exact = libm::tanh(x);
            let gap = (f64::from(*tanh) - exact).abs();
            // Four roundings: of eʳ − 1, of e²ˣ − 1, of the sum and of the quotient.
            assert!(gap <= 4.0 * 2f64.powi(-24) * exact.abs(), "tanh {x}: {tanh}, off by {gap}");
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            let exact = 0.5 * x * (1.0 + libm::tanh(u));
            let gap = (f64::from(*gelu) - exact).abs();
            // The exponent 2u is off by three roundings, hence e⁻²ᵘ by 2u times as much.
            let bound = 2f64.powi(-24) * (6.0 * exact.abs() + 6.0 * x.abs().min(1.0));
            assert!(gap <= bound, "gelu {x}: {gelu}, off by {gap}");
        }
        let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for isa in IsaKind::ALL.into_iter().filter(|isa| isa.is_available()) {
            for (own, portable) in of(isa, &x).iter().zip([&tanh, &gelu]) {
                assert!(bits(own) == bits(portable), "{isa:?}");
            }
        }
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        for isa in IsaKind::ALL.into_iter().filter(|isa| isa.is_available()) {
            let [tanh, gelu] = of(isa, &[f32::NAN; LANES]);
            assert!(tanh.iter().chain(&gelu).all(|x| x.is_nan()), "{isa:?}");
            let [tanh, _] = of(isa, &[f32::INFINITY; LANES]);
            assert_eq!(tanh, [1.0; LANES]);
        }
    }
}
