//! Tensors from `model.safetensors`, whole or in shards.
//!
//! Every tensor is read once, on request, and hashed as it is read: the hash covers
//! exactly the weights that are computed with, and no part of a file stays in memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::files::{Stamp, Text, add_name, fault, open, unreadable};
use crate::error::Error;

/// Number of bytes that are read at once.
const PIECE: usize = 1 << 20;
/// Bytes of a file before its header, which hold the header's length.
const PREFIX: usize = 8;
/// The longest header in bytes, as in the format's own library.
const MOST_HEADER: u64 = 100_000_000;

/// The weights of a folder.
pub(super) struct Safetensors {
    files: Vec<Stored>,
    /// For sharded weights: the index, and the number of the file that holds each
    /// tensor.
    shard: Option<(Text, BTreeMap<String, usize>)>,
    /// SHA-256 of the tensors that were read.
    read: RefCell<BTreeMap<String, [u8; 32]>>,
}

/// An open file whose header has been read.
struct Stored {
    path: PathBuf,
    file: File,
    stamp: Stamp,
    header: Vec<u8>,
    tensors: Metadata,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Safetensors {
    /// Opens the weights of `folder`: `model.safetensors`, or else what
    /// `model.safetensors.index.json` names.
    ///
    /// # Errors
    /// If there are none, or a file is damaged.
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let read = RefCell::default();
        let whole = folder.join("model.safetensors");
        // A dangling link counts as present; reading it then fails.
        if whole.symlink_metadata().is_ok() {
            return Ok(Self { files: vec![Stored::open(whole)?], shard: None, read });
        }
        let index = Text::read(folder.join("model.safetensors.index.json"))?;
        let weight_map = index.json::<Index>()?.weight_map;
        let mut names = weight_map.values().collect::<Vec<_>>();
        names.sort();
        names.dedup();
        // A shard lies beside its index; a path to another folder is rejected.
        if let Some(name) = names.iter().find(|n| Path::new(n).file_name() != Some(n.as_ref())) {
            return Err(index.fault(format!("\"{name}\" is not the name of a file")));
        }
        let files = names.iter().map(|name| Stored::open(folder.join(name)));
        let files = files.collect::<Result<_, _>>()?;
        let number = |file: &String| names.binary_search(&file).unwrap_or_default();
        let shard = weight_map.iter().map(|(tensor, file)| (tensor.clone(), number(file)));
        let shard = shard.collect();
        Ok(Self { files, shard: Some((index, shard)), read })
    }

    /// Checks that a tensor of this shape is there.
    ///
    /// # Errors
    /// If it is missing or has another shape; the sentence names file and tensor.
    pub(super) fn check(&self, name: &str, shape: &[usize]) -> Result<(), Error> {
        self.find(name, shape).map(drop)
    }

    /// A tensor in f32, whatever it is stored in, row by row.
    ///
    /// # Errors
    /// As [`Self::check`], and if it has an unsupported type, contains NaN or infinity,
    /// or cannot be read.
    pub(super) fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let (stored, info) = self.find(name, shape)?;
        let (tensor, hash) = stored.tensor(name, info)?;
        if !tensor.iter().all(|weight| weight.is_finite()) {
            let what = format!("tensor {name} holds NaN or infinite weights");
            return Err(fault(&stored.path, what));
        }
        self.read.borrow_mut().insert(name.to_owned(), hash);
        Ok(tensor)
    }

    /// Adds everything that was read to a hash: names and headers of the files, and the
    /// tensors by name.
    ///
    /// # Errors
    /// If a file was changed since it was opened.
    pub(super) fn add_to(&self, hash: &mut Sha256) -> Result<(), Error> {
        self.shard.iter().for_each(|(index, _)| index.add_to(hash));
        for stored in &self.files {
            let now = Stamp::of(&stored.file).map_err(|e| unreadable(&stored.path, &e))?;
            if now != stored.stamp {
                return Err(stored.changed());
            }
            add_name(hash, &stored.path);
            hash.update(&stored.header);
        }
        for (name, tensor) in self.read.borrow().iter() {
            hash.update(name);
            hash.update(tensor);
        }
        Ok(())
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<(&Stored, &TensorInfo), Error> {
        let missing = || format!("tensor {name} is missing");
        let number = match &self.shard {
            None => 0,
            Some((index, shard)) => *shard.get(name).ok_or_else(|| index.fault(missing()))?,
        };
        let stored = &self.files[number];
        let info = stored.tensors.info(name).ok_or_else(|| fault(&stored.path, missing()))?;
        if info.shape != shape {
            let found = &info.shape;
            let what = format!("tensor {name} has shape {found:?}, but config.json asks for");
            return Err(fault(&stored.path, format!("{what} {shape:?}")));
        }
        Ok((stored, info))
    }
}

impl Stored {
    /// Opens a file and checks its header against its length.
    fn open(path: PathBuf) -> Result<Self, Error> {
        let mut file = open(&path)?;
        let stamp = Stamp::of(&file).map_err(|e| unreadable(&path, &e))?;
        let damaged =
            |what: &str| fault(&path, format!("not a complete safetensors file ({what})"));
        let mut header = vec![0; PREFIX];
        let ends = || damaged("it ends before its header does");
        let fail = |e: io::Error| match e.kind() {
            ErrorKind::UnexpectedEof => ends(),
            _ => unreadable(&path, &e),
        };
        file.read_exact(&mut header).map_err(fail)?;
        let length = header.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
        if length > MOST_HEADER.min(stamp.length.saturating_sub(PREFIX as u64)) {
            return Err(ends());
        }
        header.resize(PREFIX + length as usize, 0);
        file.read_exact(&mut header[PREFIX..]).map_err(fail)?;
        let tensors = serde_json::from_slice::<Metadata>(&header[PREFIX..])
            .map_err(|e| damaged(&format!("its header: {e}")))?;
        let (found, wanted) =
            (stamp.length.saturating_sub(header.len() as u64), tensors.data_len() as u64);
        if found != wanted {
            let what = format!("{found} bytes of tensors; its header describes {wanted}");
            return Err(damaged(&what));
        }
        Ok(Self { path, file, stamp, header, tensors })
    }

    /// Reads a tensor, and hashes what it reads.
    fn tensor(&self, name: &str, info: &TensorInfo) -> Result<(Vec<f32>, [u8; 32]), Error> {
        let widen: fn(&[u8], &mut Vec<f32>) = match info.dtype {
            Dtype::F32 => |bytes, to| widened(bytes, f32::from_le_bytes, to),
            Dtype::F16 => |bytes, to| widened(bytes, |b| f16::from_le_bytes(b).to_f32(), to),
            Dtype::BF16 => |bytes, to| widened(bytes, |b| bf16::from_le_bytes(b).to_f32(), to),
            found => {
                let what =
                    format!("tensor {name} is of type {found}; supported are: f32, f16, bf16");
                return Err(fault(&self.path, what));
            }
        };
        let (start, end) = info.data_offsets;
        let mut file = &self.file;
        let at = SeekFrom::Start((self.header.len() + start) as u64);
        file.seek(at).map_err(|e| unreadable(&self.path, &e))?;
        let mut tensor = Vec::with_capacity(info.shape.iter().product());
        let mut hash = Sha256::new();
        let mut buffer = vec![0; PIECE.min(end - start)];
        let mut left = end - start;
        while left > 0 {
            let piece = &mut buffer[..left.min(PIECE)];
            file.read_exact(piece).map_err(|e| match e.kind() {
                ErrorKind::UnexpectedEof => self.changed(),
                _ => unreadable(&self.path, &e),
            })?;
            hash.update(&*piece);
            widen(piece, &mut tensor);
            left -= piece.len();
        }
        Ok((tensor, hash.finalize().into()))
    }

    fn changed(&self) -> Error {
        fault(&self.path, "was changed while it was read: wait until it is complete, and try again")
    }
}

/// Appends stored weights, converted to f32.
fn widened<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32, to: &mut Vec<f32>) {
    to.extend(bytes.as_chunks().0.iter().map(|&weight| value(weight)));
}
