//! Products with weight matrices, laid out for passes of a few rows.

use crate::error::Error;
use candle_core::Tensor;

/// Outputs per panel. Of the widths 16 to 384, measured with AVX-512 on
/// matrices of the embedded target, 64 makes a pass of one row 7 % faster than
/// 32, but a pass of five rows 60 % slower.
const WIDTH: usize = 32;

/// A weight matrix, cut into panels of [`WIDTH`] outputs.
///
/// candle's product of a few rows with a whole matrix either repacks the matrix
/// in every pass (one row per output, as in a checkpoint) or walks through it
/// with a stride of all outputs (the transposed order). A panel is read from
/// beginning to end: verifying five rows then takes half the time.
#[derive(Debug)]
pub(super) struct Projection {
    /// Shape `(panels, inputs, WIDTH)`.
    panels: Tensor,
    outputs: usize,
    bias: Option<Tensor>,
}

impl Projection {
    /// From a matrix of shape `(outputs, inputs)`, as checkpoints store it, and what is
    /// added to the outputs.
    pub(super) fn new(matrix: &Tensor, bias: Option<Tensor>) -> Result<Self, Error> {
        let (outputs, inputs) = matrix.dims2()?;
        let panels = outputs.div_ceil(WIDTH);
        let padded = matrix.pad_with_zeros(0, 0, panels * WIDTH - outputs)?;
        let panels = padded.reshape((panels, WIDTH, inputs))?.transpose(1, 2)?.contiguous()?;
        Ok(Self { panels, outputs, bias })
    }

    /// `x` of shape `(rows, inputs)` becomes `(rows, outputs)`.
    pub(super) fn apply(&self, x: &Tensor) -> Result<Tensor, Error> {
        let (rows, inputs) = x.dims2()?;
        let panels = self.panels.dim(0)?;
        let y = x.unsqueeze(0)?.expand((panels, rows, inputs))?.matmul(&self.panels)?;
        let y = y.transpose(0, 1)?.reshape((rows, panels * WIDTH))?;
        let y = if panels * WIDTH == self.outputs { y } else { y.narrow(1, 0, self.outputs)? };
        Ok(match &self.bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        })
    }
}
