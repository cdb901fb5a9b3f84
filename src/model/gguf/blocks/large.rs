//! Blocks of 256 weights, whose scales are small integers with a scale of their own.

use super::integers::{add_bit, halves};
use super::plain::half_at;

/// w = (d · scale) · q − (dmin · minimum), with scale and minimum of 32 weights.
///
/// f16 d and dmin, 12 bytes of scales and minima, then 32 bytes for every 64 weights.
pub(super) fn q4_k(block: &[u8; 144], weights: &mut [f32; 256]) {
    let parts = weights.chunks_exact_mut(64).zip(block[16..].chunks_exact(32));
    for (number, (weights, low)) in parts.enumerate() {
        fill(weights, halves(low), block, 2 * number);
    }
}

/// As Q4_K, with 32 bytes of fifth bits before the integers: bit k of byte i belongs to
/// weight i of the k-th 32 weights.
pub(super) fn q5_k(block: &[u8; 176], weights: &mut [f32; 256]) {
    let (high, low) = block[16..].split_at(32);
    let parts = weights.chunks_exact_mut(64).zip(low.chunks_exact(32));
    for (number, (weights, low)) in parts.enumerate() {
        let mut integers = halves(low);
        for (part, integers) in integers.chunks_exact_mut(32).enumerate() {
            let bits = high.iter().map(|bits| bits >> (2 * number + part));
            integers.iter_mut().zip(bits).for_each(|(q, bits)| add_bit(q, bits));
        }
        fill(weights, integers, block, 2 * number);
    }
}

/// w = (d · scale) · (q − 32), with an 8-bit scale of 16 weights.
///
/// For every 128 weights 64 bytes of low halves and 32 of high pairs; then 16 scales, and
/// f16 d.
pub(super) fn q6_k(block: &[u8; 210], weights: &mut [f32; 256]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = half_at(block, 208);
    let bytes = low.chunks_exact(64).zip(high.chunks_exact(32));
    let parts = weights.chunks_exact_mut(128).zip(scales.chunks_exact(8)).zip(bytes);
    for ((weights, scales), (low, high)) in parts {
        let mut integers = halves::<128>(low);
        for (part, integers) in integers.chunks_exact_mut(32).enumerate() {
            let pairs = high.iter().map(|pairs| (pairs >> (2 * part)) & 3);
            integers.iter_mut().zip(pairs).for_each(|(q, pair)| *q |= pair << 4);
        }
        let integers = integers.chunks_exact(16);
        for ((weights, integers), scale) in weights.chunks_exact_mut(16).zip(integers).zip(scales) {
            let scale = d * f32::from(scale.cast_signed());
            for (weight, &q) in weights.iter_mut().zip(integers) {
                *weight = scale * (f32::from(q) - 32.0);
            }
        }
    }
}

/// w = (d · scale) · q − (dmin · minimum) for the 32 weights of a part and the 32 of the
/// next, given their block.
fn fill(weights: &mut [f32], integers: [u8; 64], block: &[u8], part: usize) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    let parts = weights.chunks_exact_mut(32).zip(integers.chunks_exact(32));
    for ((weights, integers), part) in parts.zip(part..) {
        let [scale, minimum] = scale_and_minimum(&block[4..16], part).map(f32::from);
        let (scale, minimum) = (d * scale, dmin * minimum);
        for (weight, &q) in weights.iter_mut().zip(integers) {
            *weight = scale * f32::from(q) - minimum;
        }
    }
}

/// Scale and minimum, 6 bits each, of one of eight parts, from twelve bytes: those of the
/// first four parts are the low bits of the first eight bytes; those of the others have
/// their low halves in the last four bytes and their high pairs above the first ones.
fn scale_and_minimum(packed: &[u8], part: usize) -> [u8; 2] {
    if part < 4 {
        return [packed[part] & 63, packed[part + 4] & 63];
    }
    let low = packed[part + 4];
    [low & 15 | packed[part - 4] >> 6 << 4, low >> 4 | packed[part] >> 6 << 4]
}
