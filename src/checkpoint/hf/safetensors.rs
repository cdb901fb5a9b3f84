//! Files in the format of safetensors.

use std::io::{self, ErrorKind};

use safetensors::tensor::{Metadata, TensorInfo};

use super::stored::{Place, Stored};
use crate::checkpoint::files::OpenFile;
use crate::core::error::Error;

/// Bytes of a file before its header, which hold the header's length.
const PREFIX: usize = 8;
/// The longest header in bytes, as in the format's own library.
const MOST_HEADER: u64 = 100_000_000;

/// Reads the header of a file, and checks it against the file's length.
pub(super) fn read(file: OpenFile) -> Result<Stored, Error> {
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
    let described = serde_json::from_slice::<Metadata>(&header[PREFIX..])
        .map_err(|e| damaged(&format!("its header: {e}")))?;
    let (found, wanted) =
        (file.length().saturating_sub(header.len() as u64), described.data_len() as u64);
    if found != wanted {
        let what = format!("{found} bytes of tensors; its header describes {wanted}");
        return Err(damaged(&what));
    }
    let place = |info: &TensorInfo| {
        let (start, end) = info.data_offsets;
        let bytes = ((header.len() + start) as u64, (end - start) as u64);
        Place { dtype: info.dtype, shape: info.shape.clone(), bytes, by_rows: true }
    };
    let tensors = described.tensors().into_iter().map(|(name, info)| (name, place(info)));
    let tensors = tensors.collect();
    Ok(Stored { file, header, tensors })
}
