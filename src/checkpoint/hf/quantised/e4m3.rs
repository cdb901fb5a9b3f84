//! Matrices of floating-point numbers of 8 bits (`F8_E4M3`) with scales of blocks, rows or all.
//!
//! A weight is its number times its scale. GPU engines round the values that it is multiplied by to
//! 8 bits, too, with scales that they compute or that are in the files; that is an approximation of
//! the model, which is not imitated.

use safetensors::Dtype;

use super::{Matrix, Scheme, has};
use crate::checkpoint::hf::weights::Weights;
use crate::core::error::Error;
use crate::engine::blocks::{E4M3_LENGTH, TensorKind, push_e4m3_row};

/// The tensor of the numbers.
const NUMBERS: &str = "weight";
/// What differs from GPU engines.
const NOTE: &str = "FP8 weights are multiplied by values in f32; engines that round these to FP8 \
                    as well have other logits";

/// The part of a matrix that has one scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScaleBlock {
    pub outputs: usize,
    /// All inputs, or a multiple of 128.
    pub inputs: usize,
}

/// Matrices with scales.
#[derive(Debug)]
pub(super) struct E4m3Scheme {
    /// The names that the tensor of the scales may have.
    pub scales: &'static [&'static str],
    /// None if that is to be seen from the scales: one scale, or the usual blocks.
    pub block: Option<ScaleBlock>,
}

/// The scales of a matrix.
struct Scales {
    name: String,
    /// As they are stored.
    shape: Vec<usize>,
    block: ScaleBlock,
}

impl ScaleBlock {
    /// A scale for all.
    pub(super) const WHOLE: Self = Self { outputs: usize::MAX, inputs: usize::MAX };
    /// A scale for each output.
    pub(super) const ROW: Self = Self { outputs: 1, inputs: usize::MAX };
    const USUAL: Self = Self { outputs: 128, inputs: 128 };

    /// A block of this size, if there are kernels for it.
    pub(super) fn new(outputs: usize, inputs: usize) -> Option<Self> {
        let fits = outputs > 0 && inputs > 0 && inputs.is_multiple_of(E4M3_LENGTH);
        fits.then_some(Self { outputs, inputs })
    }
}

impl E4m3Scheme {
    /// Finds the scales of a matrix.
    ///
    /// # Errors
    /// If there are none, or not the right number of them.
    fn scales(&self, matrix: Matrix<'_>) -> Result<Scales, Error> {
        let Matrix { files, module, outputs, inputs } = matrix;
        let part = self.scales.iter().find(|part| has(files, module, part));
        let name = matrix.name(part.unwrap_or(&self.scales[0]));
        let found = files.form(&name).map_or(&[][..], |(_, shape)| shape);
        let single = found.iter().all(|&n| n == 1);
        let block = match self.block {
            Some(block) => block,
            None if single => ScaleBlock::WHOLE,
            None => ScaleBlock::USUAL,
        };
        let rows = outputs.div_ceil(block.outputs);
        let shape = [rows, inputs.div_ceil(block.inputs)];
        let is_plain = shape == [1, 1] && single || shape[1] == 1 && *found == [rows];
        let shape = if is_plain { found.to_vec() } else { shape.to_vec() };
        files.check(&name, &shape)?;
        Ok(Scales { name, shape, block })
    }
}

impl Scheme for E4m3Scheme {
    fn part(&self) -> &'static str {
        NUMBERS
    }

    /// Scales show that it was to be quantised: then its type is checked.
    fn has(&self, files: &Weights, module: &str) -> bool {
        let numbers = files.form(&format!("{module}.{NUMBERS}"));
        numbers.is_some_and(|(dtype, _)| {
            dtype == Dtype::F8_E4M3 || self.scales.iter().any(|part| has(files, module, part))
        })
    }

    fn kind(&self, _: &Weights, _: &str) -> TensorKind {
        TensorKind::E4m3
    }

    fn check(&self, matrix: Matrix<'_>) -> Result<(), Error> {
        let Matrix { files, outputs, inputs, .. } = matrix;
        files.check_type(&matrix.name(NUMBERS), Dtype::F8_E4M3, &[outputs, inputs])?;
        self.scales(matrix).map(drop)
    }

    fn blocks(&self, matrix: Matrix<'_>) -> Result<Vec<u8>, Error> {
        let Matrix { files, outputs, inputs, .. } = matrix;
        let Scales { name, shape, block } = self.scales(matrix)?;
        let scales = files.get(&name, &shape)?;
        let numbers = files.bytes(&matrix.name(NUMBERS), Dtype::F8_E4M3, &[outputs, inputs])?;
        let per_row = inputs.div_ceil(block.inputs);
        let mut blocks = Vec::new();
        for (output, row) in numbers.chunks_exact(inputs).enumerate() {
            let scales = &scales[output / block.outputs * per_row..][..per_row];
            push_e4m3_row(row, |input| scales[input / block.inputs], &mut blocks);
        }
        Ok(blocks)
    }

    fn note(&self) -> Option<&'static str> {
        Some(NOTE)
    }
}
