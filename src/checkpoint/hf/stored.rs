//! A file of safetensors: its header, and its tensors read in pieces.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use crate::checkpoint::files::OpenFile;
use crate::core::error::Error;
use crate::engine::blocks::TensorKind;

/// Bytes of a file before its header, which hold the header's length.
const PREFIX: usize = 8;
/// The longest header in bytes, as in the format's own library.
const MOST_HEADER: u64 = 100_000_000;

/// An open file whose header has been read.
pub(super) struct Stored {
    pub(super) file: OpenFile,
    pub(super) header: Vec<u8>,
    pub(super) tensors: Metadata,
}

impl Stored {
    /// Opens a file and checks its header against its length.
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let file = OpenFile::open(path)?;
        let damaged = |what: &str| file.fault(format!("not a complete safetensors file ({what})"));
        let mut header = vec![0; PREFIX];
        let ends = || damaged("it ends before its header does");
        let fail = |e: io::Error| match e.kind() {
            ErrorKind::UnexpectedEof => ends(),
            _ => file.failed(&e),
        };
        let mut from = file.from(0);
        from.read_exact(&mut header).map_err(fail)?;
        let length = header.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
        if length > MOST_HEADER.min(file.length().saturating_sub(PREFIX as u64)) {
            return Err(ends());
        }
        header.resize(PREFIX + length as usize, 0);
        from.read_exact(&mut header[PREFIX..]).map_err(fail)?;
        drop(from);
        let tensors = serde_json::from_slice::<Metadata>(&header[PREFIX..])
            .map_err(|e| damaged(&format!("its header: {e}")))?;
        let (found, wanted) =
            (file.length().saturating_sub(header.len() as u64), tensors.data_len() as u64);
        if found != wanted {
            let what = format!("{found} bytes of tensors; its header describes {wanted}");
            return Err(damaged(&what));
        }
        Ok(Self { file, header, tensors })
    }

    /// Reads a tensor, and hashes what it reads.
    pub(super) fn tensor(
        &self,
        name: &str,
        info: &TensorInfo,
    ) -> Result<(Vec<f32>, [u8; 32]), Error> {
        let Some(kind) = kind_of(info.dtype) else {
            let found = info.dtype;
            let what = format!("tensor {name} is of type {found}; supported are: f32, f16, bf16");
            return Err(self.file.fault(what));
        };
        let mut tensor = Vec::with_capacity(info.shape.iter().product());
        let hash = self.pieces(info, kind.bytes(), |piece| kind.dequantise(piece, &mut tensor))?;
        Ok((tensor, hash))
    }

    /// Reads the bytes of a tensor in pieces that are multiples of `unit`, and hashes them.
    pub(super) fn pieces(
        &self,
        info: &TensorInfo,
        unit: usize,
        each: impl FnMut(&[u8]),
    ) -> Result<[u8; 32], Error> {
        let (start, end) = info.data_offsets;
        let place = ((self.header.len() + start) as u64, (end - start) as u64);
        self.file.hashed(place, unit, each)
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
