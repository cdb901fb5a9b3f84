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
    /// Of eight parts of 32 weights, or of sixteen of 16. In types without minima they have a sign.
    pub scales: [u8; 16],
    /// Of eight parts.
    pub minima: [u8; 8],
    /// As they are stored: without the offset that some types subtract.
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

    /// w = (d · (scale − 32)) · (q − 4), with a 6-bit scale of 16 weights.
    ///
    /// 32 bytes of third bits: bit k of byte i belongs to weight i of the k-th 32 weights; for
    /// every 128 weights 32 bytes of low pairs; then 12 bytes of scales, and f16 d.
    pub(crate) fn q3_k(block: &[u8; 110]) -> Self {
        let (high, low, packed) = (&block[..32], &block[32..96], &block[96..108]);
        let integers = std::array::from_fn(|i| {
            let (part, at) = (i / 32, i % 32);
            let pair = low[i / 128 * 32 + at] >> (2 * (part % 4)) & 3;
            pair | (high[at] >> part & 1) << 2
        });
        let scales = std::array::from_fn(|i| {
            let four = packed[i % 8] >> (4 * (i / 8)) & 15;
            let two = packed[8 + i % 4] >> (2 * (i / 4)) & 3;
            (four | two << 4).wrapping_sub(32)
        });
        Self { scale: bits_at(block, 108), minimum: 0, scales, minima: [0; 8], integers }
    }

    /// w = (d · (scale − 32)) · step of q, with a 6-bit scale of 32 weights.
    ///
    /// f16 d, 16 bits of high pairs and 4 bytes of low halves of scales, then 16 bytes for every
    /// 32 weights.
    pub(crate) fn iq4_xs(block: &[u8; 136]) -> Self {
        let pairs = bits_at(block, 2);
        let mut integers = [0; 256];
        for (integers, low) in integers.as_chunks_mut().0.iter_mut().zip(block[8..].chunks(16)) {
            *integers = halves::<32>(low);
        }
        let mut scales = [0; 16];
        for (part, scale) in scales.iter_mut().take(8).enumerate() {
            let four = block[4 + part / 2] >> (4 * (part % 2)) & 15;
            let two = (pairs >> (2 * part) & 3) as u8;
            *scale = (four | two << 4).wrapping_sub(32);
        }
        Self { scale: bits_at(block, 0), minimum: 0, scales, minima: [0; 8], integers }
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

    /// The weights of types without minima, whose parts have `PART` weights, given what an integer
    /// stands for.
    pub(super) fn fill_around<const PART: usize>(
        &self,
        weights: &mut [f32; 256],
        number: impl Fn(u8) -> i32,
    ) {
        let [d, _] = self.numbers();
        let parts = weights.chunks_exact_mut(PART).zip(self.integers.chunks_exact(PART));
        for ((weights, integers), scale) in parts.zip(self.scales) {
            let scale = d * f32::from(scale.cast_signed());
            for (weight, &q) in weights.iter_mut().zip(integers) {
                *weight = scale * number(q) as f32;
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
