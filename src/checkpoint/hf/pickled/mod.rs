//! Files that `torch.save` wrote: an archive with the bytes of tensors, and a pickle that says
//! which tensors these are. The pickle is a program; it is not run, but read by a machine that can
//! make dictionaries of tensors and nothing else.

mod archive;
mod machine;

use std::collections::BTreeMap;

use self::archive::Archive;
use self::machine::{Storage, Tensor};
use super::stored::{Place, Stored};
use crate::checkpoint::files::OpenFile;
use crate::core::error::Error;

/// The entry that says in which order the bytes of a number lie; older files lack it.
const BYTE_ORDER: &str = "byteorder";

/// Reads what a file says of its tensors, and checks it against the file's length.
pub(super) fn read(file: OpenFile) -> Result<Stored, Error> {
    let archive = Archive::open(&file)?;
    if archive.has(BYTE_ORDER) && archive.read(BYTE_ORDER)? != b"little" {
        return Err(file.fault(format!("its numbers are not little-endian: {}", convert(&file))));
    }
    let pickle = archive.read("data.pkl")?;
    let fail = |why: String| file.fault(format!("its pickle {why}"));
    let mut storages = BTreeMap::new();
    let mut tensors = BTreeMap::new();
    for (name, tensor) in machine::dictionary(&pickle).map_err(fail)? {
        let Storage { key, .. } = *tensor.storage;
        let storage = match storages.get(key) {
            Some(storage) => *storage,
            None => archive.place(&format!("data/{key}"))?,
        };
        storages.insert(key, storage);
        let place = place(&tensor, storage).ok_or_else(|| {
            let length = storage.1;
            fail(format!("describes tensor {name:?} otherwise than its {length} bytes of storage"))
        })?;
        tensors.insert(name.to_owned(), place);
    }
    drop(archive);
    Ok(Stored { file, tensors, header: pickle })
}

/// Where a tensor lies, given first byte and length of its storage; `None` if not all of it lies
/// within that, or the storage has another length than the pickle says.
fn place(tensor: &Tensor<'_>, (start, length): (u64, u64)) -> Option<Place> {
    let Tensor { storage, offset, shape, strides } = tensor;
    let unit = storage.dtype.bitsize() as u64 / 8;
    let count = shape.iter().try_fold(1u64, |count, &n| count.checked_mul(n))?;
    let all = storage.count.checked_mul(unit)?;
    let (skipped, own) = (offset.checked_mul(unit)?, count.checked_mul(unit)?);
    let by_rows = count == 0 || are_rows(shape, strides);
    if all != length || by_rows && skipped.checked_add(own)? > length {
        return None;
    }
    let bytes = if by_rows { (start + skipped, own) } else { (start, length) };
    let shape = shape.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<_>>()?;
    Some(Place { dtype: storage.dtype, shape, bytes, by_rows })
}

/// Whether numbers with these distances lie row by row. A dimension of one has no distances.
fn are_rows(shape: &[u64], strides: &[u64]) -> bool {
    let mut expected = 1u64;
    shape.iter().zip(strides).rev().all(|(&n, &stride)| {
        let is_row = n == 1 || stride == expected;
        expected = expected.saturating_mul(n);
        is_row
    })
}

/// How to make a file that can be read of one that torch alone can read.
pub(super) fn convert(file: &OpenFile) -> String {
    let name = file.path().file_name().unwrap_or_default().to_string_lossy();
    let files = if name.starts_with("pytorch_model") { "pytorch_model*.bin" } else { &*name };
    format!(
        "run, in its folder, python -c \"import glob, torch, safetensors.torch as s; w = {{}}; \
         [w.update(torch.load(f, 'cpu', weights_only=True)) for f in glob.glob('{files}')]; \
         s.save_file({{k: v.clone().contiguous() for k, v in w.items()}}, 'model.safetensors')\""
    )
}
