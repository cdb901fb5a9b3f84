//! Weights as numbers of eight bits: sign, four bits of exponent and three of fraction, without
//! infinity (`e4m3fn`; Micikevicius et al. 2022, arXiv 2209.05433), and a scale.

use crate::core::lanes::E4M3_STEP;

/// Weights of a block.
pub(crate) const E4M3_LENGTH: usize = 128;
/// Bytes of a block: an f32 scale, then the weights.
pub(super) const BYTES: usize = 4 + E4M3_LENGTH;
/// The bits of a number other than its sign, all of which are set in NaN.
const MAGNITUDE: u8 = 0x7f;
/// The largest number.
const LARGEST: f32 = 448.0;

/// A block of 128 weights with a scale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct E4m3Block<'a> {
    pub scale: f32,
    pub weights: &'a [u8; E4M3_LENGTH],
}

impl<'a> E4m3Block<'a> {
    /// A block of bytes; none if there are too few.
    pub(crate) fn parse(block: &'a [u8]) -> Option<Self> {
        let (scale, weights) = block.split_first_chunk()?;
        Some(Self { scale: f32::from_le_bytes(*scale), weights: weights.first_chunk()? })
    }

    /// Whether its weights are finite as the kernels multiply them.
    fn is_finite(self) -> bool {
        // A weight is at most 448 times the scale.
        let holds = (self.scale * LARGEST).is_finite();
        holds & self.weights.iter().fold(true, |all, &w| all & (w & MAGNITUDE != MAGNITUDE))
    }
}

/// Appends a row of blocks. The last block of a row is padded with zeros.
pub(crate) fn push_e4m3_row(row: &[u8], scale: impl Fn(usize) -> f32, to: &mut Vec<u8>) {
    for (number, weights) in row.chunks(E4M3_LENGTH).enumerate() {
        to.extend(scale(number * E4M3_LENGTH).to_le_bytes());
        to.extend(weights);
        to.resize(to.len() + E4M3_LENGTH - weights.len(), 0);
    }
}

/// Whether all weights of whole blocks are finite.
pub(super) fn are_finite(blocks: &[u8]) -> bool {
    blocks.chunks_exact(BYTES).filter_map(E4m3Block::parse).all(E4m3Block::is_finite)
}

/// Appends the weights of whole blocks: a number times its scale, rounded to f32.
pub(super) fn dequantise(blocks: &[u8], to: &mut Vec<f32>) {
    for block in blocks.chunks_exact(BYTES).filter_map(E4m3Block::parse) {
        to.extend(block.weights.iter().map(|&weight| block.scale * e4m3_number(weight)));
    }
}

/// The number of a byte other than NaN.
pub(crate) fn e4m3_number(byte: u8) -> f32 {
    let (sign, magnitude) = (u16::from(byte & !MAGNITUDE) << 8, u16::from(byte & MAGNITUDE) << 7);
    half::f16::from_bits(sign | magnitude).to_f32() * E4M3_STEP
}
