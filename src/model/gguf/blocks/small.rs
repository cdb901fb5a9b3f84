//! Blocks of 32 weights: f16 scale, f16 minimum if there is one, fifth bits if there are
//! any, then the integers.

use super::integers::{add_bit, halves};
use super::plain::half_at;

/// The steps of IQ4_NL.
const STEPS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// w = d · (q − 8).
pub(super) fn q4_0(block: &[u8; 18], weights: &mut [f32; 32]) {
    let d = half_at(block, 0);
    fill(weights, halves(&block[2..]), |q| d * (q - 8.0));
}

/// w = d · q + m.
pub(super) fn q4_1(block: &[u8; 20], weights: &mut [f32; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    fill(weights, halves(&block[4..]), |q| d * q + m);
}

/// w = d · (q − 16).
pub(super) fn q5_0(block: &[u8; 22], weights: &mut [f32; 32]) {
    let d = half_at(block, 0);
    fill(weights, fives(&block[2..]), |q| d * (q - 16.0));
}

/// w = d · q + m.
pub(super) fn q5_1(block: &[u8; 24], weights: &mut [f32; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    fill(weights, fives(&block[4..]), |q| d * q + m);
}

/// w = d · q.
pub(super) fn q8_0(block: &[u8; 34], weights: &mut [f32; 32]) {
    let d = half_at(block, 0);
    for (weight, q) in weights.iter_mut().zip(&block[2..]) {
        *weight = d * f32::from(q.cast_signed());
    }
}

/// w = d · step of q.
pub(super) fn iq4_nl(block: &[u8; 18], weights: &mut [f32; 32]) {
    let d = half_at(block, 0);
    let steps = STEPS.map(|step| d * f32::from(step));
    for (weight, q) in weights.iter_mut().zip(halves::<32>(&block[2..])) {
        *weight = steps[usize::from(q)];
    }
}

fn fill(weights: &mut [f32; 32], integers: [u8; 32], weight: impl Fn(f32) -> f32) {
    for (place, q) in weights.iter_mut().zip(integers) {
        *place = weight(f32::from(q));
    }
}

/// 32 integers of five bits: four bytes with the fifth bits, then sixteen with the others.
fn fives(bytes: &[u8]) -> [u8; 32] {
    let mut integers = halves(&bytes[4..]);
    for (eight, bits) in integers.chunks_exact_mut(8).zip(bytes) {
        for (i, q) in eight.iter_mut().enumerate() {
            add_bit(q, bits >> i);
        }
    }
    integers
}
