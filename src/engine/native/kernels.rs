//! A packed matrix on its own, for measuring and for testing the kernels.
#![allow(unsafe_code)] // packed rows; each access states its reason

use std::sync::Mutex;

use super::matrix::{Matrix, PackedRows, Sums, WeightStorage, multiply_together};
use super::memory::{Builder, Memory};
use crate::core::error::Error;
use crate::core::lanes::{IsaKind, LANES};
use crate::engine::Dtype;
use crate::engine::blocks::{RawRows, SomeRows};
use crate::engine::pool::Pool;

/// A weight matrix as the engine holds it.
#[derive(Debug)]
pub struct PackedMatrix {
    memory: Memory,
    matrix: Matrix,
}

impl PackedMatrix {
    /// Packs a matrix given row by row, one row of `inputs` weights per output, for an
    /// instruction set.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn pack(isa: IsaKind, rows: &[f32], inputs: usize, dtype: Dtype) -> Result<Self, Error> {
        let outputs = rows.len() / inputs;
        let storage = WeightStorage::of_numbers(dtype, inputs);
        let bytes = Matrix::bytes(storage, outputs, inputs);
        let mut memory = Builder::new(bytes)?;
        let mut matrix = Matrix::new(isa, inputs);
        let piece = &mut memory.pieces(&[bytes])[0];
        let mut filling = matrix.extend(piece, storage, outputs);
        filling.put(0, outputs, SomeRows::Numbers(rows));
        Ok(Self { memory: memory.finish()?, matrix })
    }

    /// Packs matrices with the same inputs, one below the other, as blocks of a type, row by row:
    /// in GGUF files they are stored like that. All but the last must have a multiple of
    /// [`LANES`] rows.
    ///
    /// # Errors
    /// If a matrix does not consist of whole rows of blocks, or memory cannot be allocated.
    pub fn of_blocks(isa: IsaKind, parts: &[RawRows], inputs: usize) -> Result<Self, Error> {
        let mut segments = Vec::new();
        for RawRows { kind, blocks } in parts {
            let storage = WeightStorage::of_tensor(*kind);
            let width = kind.row_bytes(inputs).filter(|&width| blocks.len().is_multiple_of(width));
            let Some(width) = width.filter(|_| storage.is_blocks()) else {
                let kind = kind.name();
                return Err(Error::engine(format!("no rows of {inputs} weights of type {kind}")));
            };
            segments.push((storage, blocks.len() / width, blocks));
        }
        let bytes = segments.iter().map(|(s, rows, _)| Matrix::bytes(*s, *rows, inputs));
        let bytes = bytes.sum();
        let mut memory = Builder::new(bytes)?;
        let piece = &mut memory.pieces(&[bytes])[0];
        let mut matrix = Matrix::new(isa, inputs);
        for (storage, rows, blocks) in segments {
            matrix.extend(piece, storage, rows).put(0, rows, SomeRows::Stored(blocks));
        }
        Ok(Self { memory: memory.finish()?, matrix })
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.matrix.outputs()
    }

    /// The weights of one output, as the products use them.
    pub fn row(&self, output: usize) -> Vec<f32> {
        let mut row = vec![0.0; self.matrix.inputs()];
        self.matrix.unpack(&self.memory, output, &mut row);
        row
    }

    /// Multiplies rows of inputs, stored one after the other; returns rows of outputs.
    pub fn times(&self, pool: &Pool, x: &[f32]) -> Vec<f32> {
        let (inputs, outputs) = (self.matrix.inputs(), self.matrix.outputs());
        let rows = x.len() / inputs;
        let packed = PackedRows::new(rows * self.matrix.words_per_row());
        let y = Mutex::new(vec![0.0; rows * outputs]);
        pool.run(&|worker| {
            worker.share(rows, |row| {
                let values = &x[row * inputs..(row + 1) * inputs];
                // SAFETY: each row is packed in one piece, and no thread reads packed
                // rows meanwhile.
                unsafe { packed.put(0, &self.matrix, (row, rows), values) };
            })?;
            // SAFETY: all rows are packed, so no thread writes to them.
            let packed = || unsafe { packed.view(0, rows) };
            let matrix = (&self.memory, &self.matrix);
            let mut sums = Sums::new();
            multiply_together(worker, matrix, 1, packed, &mut sums, &mut |first, sums| {
                let mut y = y.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                for (i, lanes) in sums.iter().enumerate() {
                    let (tile, row) = (first + i / rows, i % rows);
                    let at = tile * LANES;
                    let until = outputs.min(at + LANES);
                    y[row * outputs + at..row * outputs + until]
                        .copy_from_slice(&lanes[..until - at]);
                }
            })
        });
        y.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
