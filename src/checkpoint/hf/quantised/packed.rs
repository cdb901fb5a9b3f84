//! Matrices in the format `pack-quantized` of compressed-tensors, in four bits.
//!
//! Integers and zero points are stored as their sums with 8, which cancels in their difference.

use safetensors::Dtype;

use super::four_bits::{
    Group, PER_WORD, check_inputs, check_order, check_outputs, integers, words,
};
use super::{CONVERT, Matrix, Scheme, has};
use crate::checkpoint::hf::weights::Weights;
use crate::core::error::Error;
use crate::engine::blocks::TensorKind;

/// `[outputs, inputs / 8]`: words of eight inputs.
const INTEGERS: &str = "weight_packed";
/// `[outputs, groups]`.
const SCALES: &str = "weight_scale";
/// `[outputs / 8, groups]`: words of eight outputs.
const ZEROS: &str = "weight_zero_point";
/// Outputs and inputs.
const SHAPE: &str = "weight_shape";
/// `[inputs]`: their groups.
const ORDER: &str = "weight_g_idx";
/// The zero point of symmetric integers.
const MIDDLE: u8 = 8;

/// Matrices in this layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packed {
    pub group: Group,
    /// Whether the zero point is 8 everywhere.
    pub symmetric: bool,
}

impl Scheme for Packed {
    fn part(&self) -> &'static str {
        INTEGERS
    }

    fn kind(&self, files: &Weights, module: &str) -> TensorKind {
        let form = files.form(&format!("{module}.{INTEGERS}"));
        let words = form.and_then(|(_, shape)| shape.last().copied());
        self.group.kind(words.unwrap_or_default().saturating_mul(PER_WORD))
    }

    fn check(&self, matrix: Matrix<'_>) -> Result<(), Error> {
        let Matrix { files, module, outputs, inputs } = matrix;
        check_inputs(matrix, INTEGERS)?;
        let groups = self.group.count(inputs);
        files.check_type(&matrix.name(INTEGERS), Dtype::I32, &[outputs, inputs / PER_WORD])?;
        files.check(&matrix.name(SHAPE), &[2])?;
        if !self.symmetric {
            check_outputs(matrix, ZEROS)?;
            let shape = [outputs / PER_WORD, groups];
            files.check_type(&matrix.name(ZEROS), Dtype::I32, &shape)?;
        }
        if has(files, module, ORDER) {
            files.check(&matrix.name(ORDER), &[inputs])?;
        }
        files.check(&matrix.name(SCALES), &[outputs, groups])
    }

    fn blocks(&self, matrix: Matrix<'_>) -> Result<Vec<u8>, Error> {
        let Matrix { files, module, outputs, inputs } = matrix;
        let shape = files.integers(&matrix.name(SHAPE), 2)?;
        if shape != [outputs as i64, inputs as i64] {
            let what = format!("is {shape:?}, but config.json asks for {:?}", [outputs, inputs]);
            return Err(matrix.fault(SHAPE, what));
        }
        if has(files, module, ORDER) {
            let order = files.integers(&matrix.name(ORDER), inputs)?;
            check_order(&order, self.group).map_err(|(input, group)| {
                let what = format!(
                    "has input {input} in group {group}: an order by activation (actorder) is not \
                     supported; {CONVERT}"
                );
                matrix.fault(ORDER, what)
            })?;
        }
        let groups = self.group.count(inputs);
        let scales = files.get(&matrix.name(SCALES), &[outputs, groups])?;
        let zeros = self.zeros(matrix, groups)?;
        let form = [outputs, inputs / PER_WORD];
        let bytes = files.bytes(&matrix.name(INTEGERS), Dtype::I32, &form)?;
        let all = words(&bytes).flat_map(integers).collect::<Vec<_>>();
        Ok(self.group.blocks(&all, inputs, |output, group| {
            let at = output * groups + group;
            (scales[at], zeros.get(at).copied().unwrap_or(MIDDLE))
        }))
    }
}

impl Packed {
    /// The zero points, output by output; empty if all are in the middle.
    fn zeros(self, matrix: Matrix<'_>, groups: usize) -> Result<Vec<u8>, Error> {
        if self.symmetric {
            return Ok(Vec::new());
        }
        let shape = [matrix.outputs / PER_WORD, groups];
        let bytes = matrix.files.bytes(&matrix.name(ZEROS), Dtype::I32, &shape)?;
        let mut zeros = vec![0; 2 * bytes.len()];
        for (zeros, words_of) in
            zeros.chunks_exact_mut(PER_WORD * groups).zip(bytes.chunks_exact(4 * groups))
        {
            for (group, word) in words(words_of).enumerate() {
                for (output, zero) in integers(word).into_iter().enumerate() {
                    zeros[output * groups + group] = zero;
                }
            }
        }
        Ok(zeros)
    }
}
