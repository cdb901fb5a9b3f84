//! Weights in four bits with a zero point: w = scale · (q − zero). Such are those of GPTQ, AWQ and
//! compressed-tensors.
//!
//! The types of GGUF files cannot hold them: a minimum of scale · zero is an f16 for about half of
//! the zero points, and scales may be bf16.

use super::integers::halves;

/// Weights that share sixteen bytes.
const PART: usize = 32;
/// Bytes before the integers: an f32 scale, and the zero point.
const HEAD: usize = 5;

/// Bytes of a block.
pub(super) const fn bytes(length: usize) -> usize {
    HEAD + length / 2
}

/// A block of `N / 32` parts: f32 scale, zero point, then sixteen bytes for each 32 weights, the
/// first sixteen of them in the low halves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ZeroPointBlock<'a> {
    pub scale: f32,
    pub zero: u8,
    parts: &'a [u8],
}

impl<'a> ZeroPointBlock<'a> {
    /// A block of bytes; none if there are too few.
    pub(crate) fn parse(block: &'a [u8]) -> Option<Self> {
        let (scale, rest) = block.split_first_chunk()?;
        let (&zero, parts) = rest.split_first()?;
        Some(Self { scale: f32::from_le_bytes(*scale), zero, parts })
    }

    /// The integers of each 32 weights.
    pub(crate) fn parts(self) -> impl Iterator<Item = [u8; PART]> + use<'a> {
        self.parts.chunks_exact(PART / 2).map(halves)
    }

    /// Whether its weights are finite.
    fn is_finite(self) -> bool {
        // No integer differs by more from a zero point, a byte.
        (self.scale * 255.0).is_finite()
    }

    fn weights(self) -> impl Iterator<Item = f32> + use<'a> {
        let Self { scale, zero, .. } = self;
        let weight = move |q: u8| scale * f32::from(i16::from(q) - i16::from(zero));
        self.parts().flat_map(move |part| part.map(weight))
    }
}

/// Appends a block, given its integers below 16.
pub(crate) fn push_zero_point_block(scale: f32, zero: u8, integers: &[u8], to: &mut Vec<u8>) {
    to.extend(scale.to_le_bytes());
    to.push(zero);
    for part in integers.chunks_exact(PART) {
        let (low, high) = part.split_at(PART / 2);
        to.extend(low.iter().zip(high).map(|(low, high)| low | high << 4));
    }
}

/// Whether all weights of whole blocks of this length are finite.
pub(super) fn are_finite(length: usize, blocks: &[u8]) -> bool {
    let blocks = blocks.chunks_exact(bytes(length));
    blocks.filter_map(ZeroPointBlock::parse).all(ZeroPointBlock::is_finite)
}

/// Appends the weights of whole blocks of `LENGTH` weights: a scale times a small integer, rounded
/// to f32.
pub(super) fn dequantise<const LENGTH: usize>(blocks: &[u8], to: &mut Vec<f32>) {
    for block in blocks.chunks_exact(const { bytes(LENGTH) }).filter_map(ZeroPointBlock::parse) {
        to.extend(block.weights());
    }
}
