//! Blocks of 32 weights: f16 scale, f16 minimum if there is one, fifth bits if there are
//! any, then the integers.

use super::integers::{add_bit, halves};
use super::plain::bits_at;

/// The steps of IQ4_NL.
pub(crate) const STEPS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The numbers of MXFP4 (e2m1), doubled: the powers of two are halved instead.
pub(crate) const NUMBERS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The largest power of MXFP4 with which all numbers are finite.
pub(super) const MOST_POWER: u8 = 252;

/// Half the power of two that a byte of MXFP4 (e8m0) stands for: 2^(e − 128).
pub(super) fn power(e: u8) -> f32 {
    match e {
        0 | 1 => f32::from_bits(0x0020_0000 << e),
        _ => f32::from_bits(u32::from(e - 1) << 23),
    }
}

/// A block of 32 weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SmallBlock {
    /// The bits of an f16; in MXFP4, the byte that stands for a power of two.
    pub scale: u16,
    /// The bits of an f16; 0 in types without a minimum.
    pub minimum: u16,
    /// As they are stored: without the offset that some types subtract; with a sign in
    /// Q8_0.
    pub integers: [u8; 32],
}

impl SmallBlock {
    /// w = d · (q − 8).
    pub(crate) fn q4_0(block: &[u8; 18]) -> Self {
        Self { scale: bits_at(block, 0), minimum: 0, integers: halves(&block[2..]) }
    }

    /// w = d · q + m.
    pub(crate) fn q4_1(block: &[u8; 20]) -> Self {
        let (scale, minimum) = (bits_at(block, 0), bits_at(block, 2));
        Self { scale, minimum, integers: halves(&block[4..]) }
    }

    /// w = d · (q − 16).
    pub(crate) fn q5_0(block: &[u8; 22]) -> Self {
        Self { scale: bits_at(block, 0), minimum: 0, integers: fives(&block[2..]) }
    }

    /// w = d · q + m.
    pub(crate) fn q5_1(block: &[u8; 24]) -> Self {
        let (scale, minimum) = (bits_at(block, 0), bits_at(block, 2));
        Self { scale, minimum, integers: fives(&block[4..]) }
    }

    /// w = d · q, with a sign.
    pub(crate) fn q8_0(block: &[u8; 34]) -> Self {
        let integers = std::array::from_fn(|i| block[2 + i]);
        Self { scale: bits_at(block, 0), minimum: 0, integers }
    }

    /// w = d · step of q.
    pub(crate) fn iq4_nl(block: &[u8; 18]) -> Self {
        Self::q4_0(block)
    }

    /// w = 2^(e − 128) · number of q.
    pub(crate) fn mxfp4(block: &[u8; 17]) -> Self {
        Self { scale: u16::from(block[0]), minimum: 0, integers: halves(&block[1..]) }
    }

    /// The weights, given how they follow from scale, minimum and integer.
    pub(super) fn fill(self, weights: &mut [f32; 32], weight: impl Fn(f32, f32, u8) -> f32) {
        let [d, m] = [self.scale, self.minimum].map(|x| half::f16::from_bits(x).to_f32());
        for (place, q) in weights.iter_mut().zip(self.integers) {
            *place = weight(d, m, q);
        }
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
