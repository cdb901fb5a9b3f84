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

/// eˣ with an error below 2 units in the last place for x in −87.3 … 88.4; 0 for x
/// below −87.7, and constant above the upper end.
#[inline(always)]
pub(crate) fn exp<I: Isa>(isa: I, x: I::F) -> I::F {
    let x = isa.max(isa.splat(RANGE[0]), isa.min(isa.splat(RANGE[1]), x));
    let shifted = isa.fma(x, isa.splat(LOG2_E), isa.splat(ROUND));
    let n = isa.sub(shifted, isa.splat(ROUND));
    let r = isa.fma(n, isa.splat(-LN_2[0]), x);
    let r = isa.fma(n, isa.splat(-LN_2[1]), r);
    let mut tail = isa.splat(TERMS[0]);
    for &term in &TERMS[1..] {
        tail = isa.fma(tail, r, isa.splat(term));
    }
    let one_plus_r = isa.add(r, isa.splat(1.0));
    let mantissa = isa.fma(tail, isa.mul(r, r), one_plus_r);
    isa.mul(mantissa, isa.exp2_integer(n))
}

/// x / (1 + e⁻ˣ), the activation of the feed-forward blocks (SiLU).
#[inline(always)]
pub(crate) fn silu<I: Isa>(isa: I, x: I::F) -> I::F {
    let e = exp(isa, isa.sub(isa.splat(0.0), x));
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
