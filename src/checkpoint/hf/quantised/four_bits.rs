//! Matrices of four bits: what GPTQ, AWQ and compressed-tensors have in common.
//!
//! A weight is scale · (q − zero), with a scale and a zero point for the inputs of a group. They
//! differ in how they place the integers in words of 32 bits.

use super::Matrix;
use crate::core::error::Error;
use crate::engine::blocks::{TensorKind, push_zero_point_block};

/// Integers of a word.
pub(super) const PER_WORD: usize = 8;
/// Weights whose products are computed at once: groups are multiples of this.
const UNIT: usize = 32;
/// The weights that a scale stands for in memory, if groups are multiples of this.
const LONG: usize = 128;

/// Number of inputs of a group; more than there are if all inputs are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group(usize);

impl Group {
    /// The groups that are supported, for errors.
    pub(super) const SUPPORTED: &str = "-1, and multiples of 32";

    /// Groups of this length, if there are kernels for it; `usize::MAX` stands for all inputs.
    pub(super) fn new(inputs: usize) -> Option<Self> {
        (inputs == usize::MAX || inputs.is_multiple_of(UNIT)).then_some(Self(inputs))
    }

    /// Number of groups of a row.
    pub(super) fn count(self, inputs: usize) -> usize {
        inputs.div_ceil(self.0)
    }

    /// The blocks that rows of this length become.
    pub(super) fn kind(self, inputs: usize) -> TensorKind {
        let is_long = self.0 >= inputs || self.0.is_multiple_of(LONG);
        if is_long && inputs.is_multiple_of(LONG) { TensorKind::U4G128 } else { TensorKind::U4G32 }
    }

    /// The blocks of rows, given their integers, one byte each. `of` is the scale and the zero
    /// point of a group of a row.
    pub(super) fn blocks(
        self,
        integers: &[u8],
        inputs: usize,
        of: impl Fn(usize, usize) -> (f32, u8),
    ) -> Vec<u8> {
        let kind = self.kind(inputs);
        let mut blocks = Vec::with_capacity(integers.len() / kind.length() * kind.bytes());
        for (row, integers) in integers.chunks_exact(inputs).enumerate() {
            for (number, integers) in integers.chunks_exact(kind.length()).enumerate() {
                let (scale, zero) = of(row, number * kind.length() / self.0);
                push_zero_point_block(scale, zero, integers, &mut blocks);
            }
        }
        blocks
    }
}

/// Checks that rows consist of blocks.
pub(super) fn check_inputs(matrix: Matrix<'_>, part: &str) -> Result<(), Error> {
    check_multiple(matrix, part, ("inputs", matrix.inputs, UNIT))
}

/// Checks that columns consist of words.
pub(super) fn check_outputs(matrix: Matrix<'_>, part: &str) -> Result<(), Error> {
    check_multiple(matrix, part, ("outputs", matrix.outputs, PER_WORD))
}

fn check_multiple(
    matrix: Matrix<'_>,
    part: &str,
    (what, number, unit): (&str, usize, usize),
) -> Result<(), Error> {
    if number.is_multiple_of(unit) {
        return Ok(());
    }
    let what = format_args!("has {number} {what} in config.json, not a multiple of {unit}");
    Err(matrix.fault(part, what))
}

/// The words in some bytes.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word))
}

/// The integers of a word, from its lowest bits up.
pub(super) fn integers(word: u32) -> [u8; PER_WORD] {
    std::array::from_fn(|i| (word >> (4 * i) & 15) as u8)
}

/// Checks that inputs belong to groups in their order.
///
/// # Errors
/// The first input that does not, and its group.
pub(super) fn check_order(groups: &[i64], Group(inputs): Group) -> Result<(), (usize, i64)> {
    let wrong = |(input, group): (usize, i64)| (input / inputs) as i64 != group;
    let mut groups = groups.iter().copied().enumerate();
    groups.find(|&group| wrong(group)).map_or(Ok(()), Err)
}
