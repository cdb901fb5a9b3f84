//! The types of tensors: their names, the blocks of weights that they consist of, and these
//! weights in f32.

mod e4m3;
mod integers;
mod large;
mod plain;
mod small;
mod zero_points;

use std::ops::Range;

pub(crate) use e4m3::{E4M3_LENGTH, E4m3Block, e4m3_number, push_e4m3_row};
pub(super) use large::LargeBlock;
use small::{MOST_POWER, power};
pub(super) use small::{NUMBERS, STEPS, SmallBlock};
pub(crate) use zero_points::{ZeroPointBlock, push_zero_point_block};

/// How the weights of a tensor are stored: in blocks of a fixed number of weights and bytes,
/// each with scales of its own. A row is a whole number of blocks, see [`Self::row_bytes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorKind {
    /// f32.
    F32,
    /// f16.
    F16,
    /// 4 bits around 0, a scale per 32 weights.
    Q4_0,
    /// 4 bits from a minimum up, scale and minimum per 32 weights.
    Q4_1,
    /// 5 bits around 0, a scale per 32 weights.
    Q5_0,
    /// 5 bits from a minimum up, scale and minimum per 32 weights.
    Q5_1,
    /// 8 bits around 0, a scale per 32 weights.
    Q8_0,
    /// 4 bits from a minimum up; scale and minimum per 32 weights are 6 bits each, and have
    /// a scale per 256 weights themselves.
    Q4K,
    /// As [`Self::Q4K`], with 5 bits.
    Q5K,
    /// 6 bits around 0; a scale per 16 weights is 8 bits, and has a scale per 256 weights.
    Q6K,
    /// 4 bits that choose one of 16 unequal steps, a scale per 32 weights.
    Iq4Nl,
    /// bf16.
    Bf16,
    /// 3 bits around 0; a scale per 16 weights is 6 bits, and has a scale per 256 weights.
    Q3K,
    /// As [`Self::Iq4Nl`]; a scale per 32 weights is 6 bits, and has a scale per 256 weights.
    Iq4Xs,
    /// Numbers of 4 bits (e2m1) with a power of two per 32 weights.
    Mxfp4,
    /// Floating-point numbers of 8 bits (e4m3fn), an f32 scale per 128 weights. Not in GGUF files.
    E4m3,
    /// 4 bits less a zero point of 4 bits, times an f32 scale, both per 32 weights. Not in GGUF
    /// files.
    U4G32,
    /// As [`Self::U4G32`], per 128 weights.
    U4G128,
}

/// The rows of a tensor as blocks of quantised weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRows {
    /// The type of the blocks.
    pub kind: TensorKind,
    /// The blocks, row by row.
    pub blocks: Vec<u8>,
}

impl RawRows {
    /// The weights of rows of `inputs` weights, without the padding of their last blocks.
    #[must_use]
    pub fn weights(&self, inputs: usize) -> Vec<f32> {
        let mut weights = Vec::new();
        let width = self.kind.row_bytes(inputs).unwrap_or(0).max(1);
        for (row, blocks) in self.blocks.chunks_exact(width).enumerate() {
            self.kind.dequantise(blocks, &mut weights);
            weights.truncate((row + 1) * inputs);
        }
        weights
    }
}

/// Rows of a matrix, one after the other.
#[derive(Clone, Copy)]
pub(crate) enum SomeRows<'a> {
    Numbers(&'a [f32]),
    /// As they are stored.
    Stored(&'a [u8]),
}

impl<'a> SomeRows<'a> {
    /// Some of these rows, which are `all` rows.
    pub(crate) fn part(self, rows: Range<usize>, all: usize) -> Self {
        let of = |length: usize| rows.start * (length / all)..rows.end * (length / all);
        match self {
            Self::Numbers(numbers) => Self::Numbers(&numbers[of(numbers.len())]),
            Self::Stored(bytes) => Self::Stored(&bytes[of(bytes.len())]),
        }
    }
}

/// What is known about a type.
struct Layout {
    name: &'static str,
    /// Its number in GGUF files; none if they do not have it.
    id: Option<u32>,
    /// Weights of a block.
    length: usize,
    /// Bytes of a block.
    bytes: usize,
    /// Where the f16 scales of a block are, if it has such.
    scales: &'static [usize],
    /// Appends the weights of whole blocks.
    dequantise: fn(&[u8], &mut Vec<f32>),
}

/// The names of all other types, by their numbers.
const OTHERS: &[(u32, &str)] = &[
    (4, "Q4_2"),
    (5, "Q4_3"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
    (40, "NVFP4"),
    (41, "Q1_0"),
    (42, "Q2_0"),
];

impl TensorKind {
    /// All types of GGUF files.
    pub const ALL: [Self; 15] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q8_0,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Iq4Nl,
        Self::Q3K,
        Self::Iq4Xs,
        Self::Mxfp4,
    ];
    /// The types of quantised matrices in Hugging Face folders, as they are kept in memory.
    pub const OF_FOLDERS: [Self; 3] = [Self::E4m3, Self::U4G32, Self::U4G128];

    /// The type with this number in GGUF files.
    ///
    /// # Errors
    /// The name of a type that is not supported.
    pub(crate) fn from_id(id: u32) -> Result<Self, String> {
        let other = || OTHERS.iter().find(|other| other.0 == id);
        let name = || other().map_or_else(|| id.to_string(), |other| other.1.to_owned());
        Self::ALL.into_iter().find(|kind| kind.id() == Some(id)).ok_or_else(name)
    }

    /// Its name, in GGUF files if they have it, such as `Q4_K`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.layout().name
    }

    /// Its number in GGUF files; none if they do not have it.
    #[must_use]
    pub fn id(self) -> Option<u32> {
        self.layout().id
    }

    /// Number of weights of a block.
    #[must_use]
    pub fn length(self) -> usize {
        self.layout().length
    }

    /// Number of bytes of a block.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.layout().bytes
    }

    /// Bytes of a row of this number of weights; none if it is not a whole number of blocks. Only
    /// the last block of a row of [`Self::E4m3`] may be padded.
    #[must_use]
    pub fn row_bytes(self, weights: usize) -> Option<usize> {
        let is_whole = weights.is_multiple_of(self.length()) || self == Self::E4m3;
        is_whole.then(|| weights.div_ceil(self.length()) * self.bytes())
    }

    /// Appends the weights of whole blocks to `to`. They have the bits of the format's own
    /// library: a scale times a small integer, or that plus or minus a minimum, and each
    /// step is rounded to f32. A rest that is shorter than a block is left out.
    pub fn dequantise(self, blocks: &[u8], to: &mut Vec<f32>) {
        (self.layout().dequantise)(blocks, to);
    }

    /// Whether all weights of whole blocks are finite.
    #[must_use]
    pub fn is_finite(self, blocks: &[u8]) -> bool {
        let layout = self.layout();
        match self {
            Self::F32 => plain::all(blocks, |b| f32::from_le_bytes(b).is_finite()),
            Self::F16 => plain::all(blocks, |b| half::f16::from_le_bytes(b).is_finite()),
            Self::Bf16 => plain::all(blocks, |b| half::bf16::from_le_bytes(b).is_finite()),
            Self::Mxfp4 => blocks.chunks_exact(layout.bytes).all(|block| block[0] <= MOST_POWER),
            Self::E4m3 => e4m3::are_finite(blocks),
            Self::U4G32 | Self::U4G128 => zero_points::are_finite(layout.length, blocks),
            // Finite scales times integers of at most 127 · 63 are below the largest f32.
            _ => blocks.chunks_exact(layout.bytes).all(|block| {
                layout
                    .scales
                    .iter()
                    .all(|&at| half::f16::from_bits(plain::bits_at(block, at)).is_finite())
            }),
        }
    }

    fn layout(self) -> Layout {
        match self {
            Self::F32 => Layout::new("F32", 0, (1, 4), &[], plain::f32),
            Self::F16 => Layout::new("F16", 1, (1, 2), &[], plain::f16),
            Self::Q4_0 => Layout::new("Q4_0", 2, (32, 18), &[0], |b, to| {
                small(b, to, SmallBlock::q4_0, |d, _, q| d * (f32::from(q) - 8.0))
            }),
            Self::Q4_1 => Layout::new("Q4_1", 3, (32, 20), &[0, 2], |b, to| {
                small(b, to, SmallBlock::q4_1, |d, m, q| d * f32::from(q) + m)
            }),
            Self::Q5_0 => Layout::new("Q5_0", 6, (32, 22), &[0], |b, to| {
                small(b, to, SmallBlock::q5_0, |d, _, q| d * (f32::from(q) - 16.0))
            }),
            Self::Q5_1 => Layout::new("Q5_1", 7, (32, 24), &[0, 2], |b, to| {
                small(b, to, SmallBlock::q5_1, |d, m, q| d * f32::from(q) + m)
            }),
            Self::Q8_0 => Layout::new("Q8_0", 8, (32, 34), &[0], |b, to| {
                small(b, to, SmallBlock::q8_0, |d, _, q| d * f32::from(q.cast_signed()))
            }),
            Self::Q4K => Layout::new("Q4_K", 12, (256, 144), &[0, 2], |b, to| {
                each(b, to, |b, to| LargeBlock::q4_k(b).fill_upward(to))
            }),
            Self::Q5K => Layout::new("Q5_K", 13, (256, 176), &[0, 2], |b, to| {
                each(b, to, |b, to| LargeBlock::q5_k(b).fill_upward(to))
            }),
            Self::Q6K => Layout::new("Q6_K", 14, (256, 210), &[208], |b, to| {
                each(b, to, |b, to| {
                    LargeBlock::q6_k(b).fill_around::<16>(to, |q| i32::from(q) - 32)
                })
            }),
            Self::Iq4Nl => Layout::new("IQ4_NL", 20, (32, 18), &[0], |b, to| {
                small(b, to, SmallBlock::iq4_nl, |d, _, q| d * f32::from(STEPS[usize::from(q)]))
            }),
            Self::Bf16 => Layout::new("BF16", 30, (1, 2), &[], plain::bf16),
            Self::Q3K => Layout::new("Q3_K", 11, (256, 110), &[108], |b, to| {
                each(b, to, |b, to| LargeBlock::q3_k(b).fill_around::<16>(to, |q| i32::from(q) - 4))
            }),
            Self::Iq4Xs => Layout::new("IQ4_XS", 23, (256, 136), &[0], |b, to| {
                let step = |q: u8| i32::from(STEPS[usize::from(q)]);
                each(b, to, |b, to| LargeBlock::iq4_xs(b).fill_around::<32>(to, step))
            }),
            Self::Mxfp4 => Layout::new("MXFP4", 39, (32, 17), &[], |b, to| {
                each(b, to, |b, weights: &mut [f32; 32]| {
                    let SmallBlock { scale, integers, .. } = SmallBlock::mxfp4(b);
                    let scale = power(scale as u8);
                    for (weight, q) in weights.iter_mut().zip(integers) {
                        *weight = scale * f32::from(NUMBERS[usize::from(q)]);
                    }
                })
            }),
            Self::E4m3 => Layout::other("F8_E4M3", (E4M3_LENGTH, e4m3::BYTES), e4m3::dequantise),
            Self::U4G32 => {
                Layout::other("U4G32", (32, zero_points::bytes(32)), zero_points::dequantise::<32>)
            }
            Self::U4G128 => Layout::other(
                "U4G128",
                (128, zero_points::bytes(128)),
                zero_points::dequantise::<128>,
            ),
        }
    }
}

/// Appends the weights of each block.
fn each<const BYTES: usize, const LENGTH: usize>(
    blocks: &[u8],
    to: &mut Vec<f32>,
    dequantise: impl Fn(&[u8; BYTES], &mut [f32; LENGTH]),
) {
    let mut weights = [0.0; LENGTH];
    for block in blocks.as_chunks().0 {
        dequantise(block, &mut weights);
        to.extend_from_slice(&weights);
    }
}

/// Appends the weights of each block, given how they follow from scale, minimum and integer.
fn small<const BYTES: usize>(
    blocks: &[u8],
    to: &mut Vec<f32>,
    parse: impl Fn(&[u8; BYTES]) -> SmallBlock,
    weight: impl Fn(f32, f32, u8) -> f32 + Copy,
) {
    each(blocks, to, |block, weights| parse(block).fill(weights, weight));
}

impl Layout {
    fn new(
        name: &'static str,
        id: u32,
        (length, bytes): (usize, usize),
        scales: &'static [usize],
        dequantise: fn(&[u8], &mut Vec<f32>),
    ) -> Self {
        Self { name, id: Some(id), length, bytes, scales, dequantise }
    }

    /// That of a type which GGUF files do not have.
    fn other(
        name: &'static str,
        (length, bytes): (usize, usize),
        dequantise: fn(&[u8], &mut Vec<f32>),
    ) -> Self {
        Self { name, id: None, length, bytes, scales: &[], dequantise }
    }
}
