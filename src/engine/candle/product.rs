//! Products with weight matrices, laid out for passes of a few rows.

use candle_core::{DType, Tensor};

use super::Place;
use crate::core::error::Error;
use crate::engine::decoder::{LayerTensors, Product};

/// Outputs per panel. Of the widths 16 to 384, measured with AVX-512 on
/// matrices of the embedded target, 64 makes a pass of one row 7 % faster than
/// 32, but a pass of five rows 60 % slower.
const WIDTH: usize = 32;

/// A weight matrix of shape `(outputs, inputs)`, in f32 or a shorter type, and what is added to its
/// outputs.
#[derive(Debug)]
pub(super) struct Projection {
    weights: Weights,
    outputs: usize,
    bias: Option<Tensor>,
}

#[derive(Debug)]
enum Weights {
    /// Panels of [`WIDTH`] outputs, of shape `(panels, inputs, WIDTH)`.
    ///
    /// On the CPU, candle's product of a few rows with a whole matrix either repacks the
    /// matrix in every pass (one row per output, as in a checkpoint) or walks through it
    /// with a stride of all outputs (the transposed order). A panel is read from
    /// beginning to end: verifying five rows then takes half the time.
    Panels(Tensor),
    /// The matrix as checkpoints store it, for the libraries of other devices: with panels, a
    /// pass of five rows of the embedded target takes 1.16 times as long on an H100.
    Whole(Tensor),
}

impl Projection {
    /// A product of a layer.
    pub(super) fn load(
        tensors: LayerTensors<'_>,
        product: Product,
        place: &Place,
    ) -> Result<Self, Error> {
        let [outputs, inputs] = tensors.config.size(tensors.index, product);
        let weights = place.matrix(tensors.weights(product)?, [outputs, inputs])?;
        let bias = tensors.bias(product)?;
        let bias = bias.map(|bias| Tensor::from_vec(bias, outputs, &place.device)).transpose()?;
        Self::new(&weights, bias)
    }

    /// From a matrix of shape `(outputs, inputs)`, as checkpoints store it, and what is
    /// added to the outputs.
    pub(super) fn new(matrix: &Tensor, bias: Option<Tensor>) -> Result<Self, Error> {
        let (outputs, inputs) = matrix.dims2()?;
        let weights = if matrix.device().is_cpu() {
            let panels = outputs.div_ceil(WIDTH);
            let padded = matrix.pad_with_zeros(0, 0, panels * WIDTH - outputs)?;
            let panels = padded.reshape((panels, WIDTH, inputs))?.transpose(1, 2)?;
            Weights::Panels(panels.contiguous()?)
        } else {
            Weights::Whole(matrix.contiguous()?)
        };
        Ok(Self { weights, outputs, bias })
    }

    /// `x` of shape `(rows, inputs)` becomes `(rows, outputs)`.
    pub(super) fn apply(&self, x: &Tensor) -> Result<Tensor, Error> {
        let y = match &self.weights {
            Weights::Panels(panels) => self.by_panels(x, &panels.to_dtype(DType::F32)?)?,
            Weights::Whole(matrix) => {
                short(x, matrix)?.matmul(&matrix.t()?)?.to_dtype(x.dtype())?
            }
        };
        Ok(match &self.bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        })
    }

    /// The two halves of what [`apply`](Self::apply) gives.
    pub(super) fn apply_halves(&self, x: &Tensor) -> Result<[Tensor; 2], Error> {
        let half = self.outputs / 2;
        let (Weights::Whole(matrix), None) = (&self.weights, &self.bias) else {
            let y = self.apply(x)?;
            return Ok([y.narrow(1, 0, half)?, y.narrow(1, half, half)?]);
        };
        // Two products in one call: halves of rows would be read with gaps.
        let (rows, inputs) = x.dims2()?;
        let halves = matrix.reshape((2, half, inputs))?.transpose(1, 2)?;
        let x = short(x, matrix)?.unsqueeze(0)?.expand((2, rows, inputs))?;
        let y = x.matmul(&halves)?.to_dtype(DType::F32)?;
        Ok([y.get(0)?, y.get(1)?])
    }

    fn by_panels(&self, x: &Tensor, panels: &Tensor) -> Result<Tensor, Error> {
        let (rows, inputs) = x.dims2()?;
        let count = panels.dim(0)?;
        let y = x.unsqueeze(0)?.expand((count, rows, inputs))?.matmul(panels)?;
        let y = y.transpose(0, 1)?.reshape((rows, count * WIDTH))?;
        Ok(if count * WIDTH == self.outputs { y } else { y.narrow(1, 0, self.outputs)? })
    }
}

/// Values in the type of the weights, for products on a device. On the CPU weights become f32
/// instead: candle has no products of shorter types there.
fn short(x: &Tensor, weights: &Tensor) -> Result<Tensor, Error> {
    Ok(x.to_dtype(weights.dtype())?)
}
