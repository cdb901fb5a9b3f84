//! A file of weights, in any format: where its tensors lie, and how they are read.

use std::collections::BTreeMap;

use safetensors::Dtype;

use crate::checkpoint::files::OpenFile;
use crate::core::error::Error;
use crate::engine::blocks::TensorKind;

/// An open file whose header has been read.
pub(super) struct Stored {
    pub(super) file: OpenFile,
    /// What describes the tensors, for the hash.
    pub(super) header: Vec<u8>,
    pub(super) tensors: BTreeMap<String, Place>,
}

/// Where a tensor lies in a file. The length of the file has confirmed all numbers.
#[derive(Debug, PartialEq)]
pub(super) struct Place {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// First byte, and number of bytes.
    pub(super) bytes: (u64, u64),
    /// Whether its numbers lie there row by row; otherwise it cannot be read.
    pub(super) by_rows: bool,
}

impl Stored {
    /// The type of a tensor.
    ///
    /// # Errors
    /// If it is not supported.
    pub(super) fn kind(&self, name: &str, place: &Place) -> Result<TensorKind, Error> {
        kind_of(place.dtype).ok_or_else(|| {
            let found = place.dtype;
            let what = format!("tensor {name} is of type {found}; supported are: f32, f16, bf16");
            self.file.fault(what)
        })
    }

    /// Reads a tensor, and hashes what it reads.
    pub(super) fn tensor(&self, name: &str, place: &Place) -> Result<(Vec<f32>, [u8; 32]), Error> {
        let kind = self.kind(name, place)?;
        let mut tensor = Vec::with_capacity(place.shape.iter().product());
        let each = |piece: &[u8]| kind.dequantise(piece, &mut tensor);
        let hash = self.file.hashed(place.bytes, kind.bytes(), each)?;
        Ok((tensor, hash))
    }

    /// Reads a list of whole numbers, and hashes what it reads.
    pub(super) fn integers(
        &self,
        name: &str,
        place: &Place,
    ) -> Result<(Vec<i64>, [u8; 32]), Error> {
        let unit = match place.dtype {
            Dtype::I64 => 8,
            Dtype::I32 => 4,
            other => {
                let what = format!("tensor {name} is of type {other}; supported are: i64, i32");
                return Err(self.file.fault(what));
            }
        };
        let number = |bytes: &[u8]| match *bytes {
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => 0,
        };
        let mut numbers = Vec::with_capacity(place.shape.iter().product());
        let each = |piece: &[u8]| numbers.extend(piece.chunks_exact(unit).map(number));
        let hash = self.file.hashed(place.bytes, unit, each)?;
        Ok((numbers, hash))
    }
}

/// How weights of a type are stored; `None` if it is not supported.
pub(super) fn kind_of(dtype: Dtype) -> Option<TensorKind> {
    match dtype {
        Dtype::F32 => Some(TensorKind::F32),
        Dtype::F16 => Some(TensorKind::F16),
        Dtype::BF16 => Some(TensorKind::Bf16),
        _ => None,
    }
}
