//! Blocks of 256 weights, whose scales are small integers with a scale of their own.

use super::integers::{add_bit, halves};
use super::plain::bits_at;

/// A block of 256 weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LargeBlock {
    /// What the scales of parts are multiplied by: the bits of an f16.
    pub scale: u16,
    /// What the minima of parts are multiplied by; 0 in types without.
    pub minimum: u16,
    /// Of eight parts of 32 weights, or of sixteen of 16, which have a sign.
    pub scales: [u8; 16],
    /// Of eight parts.
    pub minima: [u8; 8],
    /// As they are stored: without the offset that Q6_K subtracts.
    pub integers: [u8; 256],
}

impl LargeBlock {
    /// w = (d · scale) · q − (dmin · minimum), with scale and minimum of 32 weights.
    ///
    /// f16 d and dmin, 12 bytes of scales and minima, then 32 bytes for every 64 weights.
    pub(crate) fn q4_k(block: &[u8; 144]) -> Self {
        let mut integers = [0; 256];
        for (integers, low) in integers.as_chunks_mut().0.iter_mut().zip(block[16..].chunks(32)) {
            *integers = halves::<64>(low);
        }
        Self::upward(block, integers)
    }

    /// As Q4_K, with 32 bytes of fifth bits before the integers: bit k of byte i belongs to
    /// weight i of the k-th 32 weights.
    pub(crate) fn q5_k(block: &[u8; 176]) -> Self {
        let (high, low) = block[16..].split_at(32);
        let mut integers = [0; 256];
        for (integers, low) in integers.as_chunks_mut().0.iter_mut().zip(low.chunks(32)) {
            *integers = halves::<64>(low);
        }
        for (part, integers) in integers.chunks_exact_mut(32).enumerate() {
            for (q, bits) in integers.iter_mut().zip(high) {
                add_bit(q, bits >> part);
            }
        }
        Self::upward(block, integers)
    }

    /// w = (d · scale) · (q − 32), with an 8-bit scale of 16 weights.
    ///
    /// For every 128 weights 64 bytes of low halves and 32 of high pairs; then 16 scales, and
    /// f16 d.
    pub(crate) fn q6_k(block: &[u8; 210]) -> Self {
        let (low, high) = (&block[..128], &block[128..192]);
        let mut integers = [0; 256];
        let bytes = low.chunks_exact(64).zip(high.chunks_exact(32));
        for (integers, (low, high)) in integers.as_chunks_mut().0.iter_mut().zip(bytes) {
            *integers = halves::<128>(low);
            for (part, integers) in integers.chunks_exact_mut(32).enumerate() {
                let pairs = high.iter().map(|pairs| (pairs >> (2 * part)) & 3);
                for (q, pair) in integers.iter_mut().zip(pairs) {
                    *q |= pair << 4;
                }
            }
        }
        let scales = std::array::from_fn(|i| block[192 + i]);
        Self { scale: bits_at(block, 208), minimum: 0, scales, minima: [0; 8], integers }
    }

    fn upward(block: &[u8], integers: [u8; 256]) -> Self {
        let (mut scales, mut minima) = ([0; 16], [0; 8]);
        for part in 0..8 {
            [scales[part], minima[part]] = scale_and_minimum(&block[4..16], part);
        }
        Self { scale: bits_at(block, 0), minimum: bits_at(block, 2), scales, minima, integers }
    }

    fn numbers(&self) -> [f32; 2] {
        [self.scale, self.minimum].map(|x| half::f16::from_bits(x).to_f32())
    }

    /// The weights of Q4_K and Q5_K.
    pub(super) fn fill_upward(&self, weights: &mut [f32; 256]) {
        let [d, dmin] = self.numbers();
        let parts = weights.chunks_exact_mut(32).zip(self.integers.chunks_exact(32));
        for ((weights, integers), (scale, minimum)) in
            parts.zip(self.scales.iter().zip(self.minima))
        {
            let (scale, minimum) = (d * f32::from(*scale), dmin * f32::from(minimum));
            for (weight, &q) in weights.iter_mut().zip(integers) {
                *weight = scale * f32::from(q) - minimum;
            }
        }
    }

    /// The weights of Q6_K.
    pub(super) fn fill_around(&self, weights: &mut [f32; 256]) {
        let [d, _] = self.numbers();
        let parts = weights.chunks_exact_mut(16).zip(self.integers.chunks_exact(16));
        for ((weights, integers), scale) in parts.zip(self.scales) {
            let scale = d * f32::from(scale.cast_signed());
            for (weight, &q) in weights.iter_mut().zip(integers) {
                *weight = scale * (f32::from(q) - 32.0);
            }
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
