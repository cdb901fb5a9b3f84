//! The files of a model, and their tensors.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::header::{StoredTensor, not_weights};
use super::metadata::Metadata;
use super::split::{FilePart, open_parts};
use crate::checkpoint::files::not_finite;
use crate::core::error::Error;
use crate::engine::blocks::TensorKind;
use crate::model::toy::hex;

/// A model in the GGUF format: one file, or all parts of a split one.
///
/// The files stay open. Every tensor is read on request and hashed as it is read: the hash
/// covers exactly the weights that are computed with, and no part of a file stays in
/// memory but its metadata.
#[derive(Debug)]
pub struct GgufFile {
    /// At least one.
    parts: Vec<FilePart>,
    /// SHA-256 of the tensors that were read.
    read: Mutex<BTreeMap<String, [u8; 32]>>,
}

impl GgufFile {
    /// Opens a file, or all parts of a split one, of which `path` is any, and checks that
    /// headers and lengths agree.
    ///
    /// # Errors
    /// One sentence that names the file and what is wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(Self { parts: open_parts(path.as_ref())?, read: Mutex::default() })
    }

    /// The file, or the first part.
    #[must_use]
    pub(in crate::checkpoint) fn path(&self) -> &Path {
        self.parts[0].file.path()
    }

    /// The metadata; those of the first part if there are several.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.parts[0].header.metadata
    }

    /// All tensors with their names.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &StoredTensor)> {
        let parts = self.parts.iter();
        parts.flat_map(|part| part.header.tensors.iter().map(|(name, t)| (name.as_str(), t)))
    }

    /// The tensor of this name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&StoredTensor> {
        self.find(name).map(|(_, tensor)| tensor)
    }

    /// The blocks of a tensor, as they are stored.
    ///
    /// # Errors
    /// If there is no such tensor, it cannot be read, or a weight is NaN or infinite.
    pub fn blocks(&self, name: &str) -> Result<Vec<u8>, Error> {
        self.blocks_of(name, None)
    }

    /// The weights of a tensor, row by row.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn weights(&self, name: &str) -> Result<Vec<f32>, Error> {
        self.weights_of(name, None)
    }

    /// The blocks of a tensor, or of some of its entries, which are whole blocks.
    pub(super) fn blocks_of(
        &self,
        name: &str,
        entries: Option<Range<usize>>,
    ) -> Result<Vec<u8>, Error> {
        let mut blocks = Vec::new();
        self.read(name, entries, |_, piece| blocks.extend_from_slice(piece))?;
        Ok(blocks)
    }

    /// The weights of a tensor, or of some of its entries, which are whole blocks.
    pub(super) fn weights_of(
        &self,
        name: &str,
        entries: Option<Range<usize>>,
    ) -> Result<Vec<f32>, Error> {
        let mut weights = Vec::new();
        self.read(name, entries, |kind, piece| kind.dequantise(piece, &mut weights))?;
        Ok(weights)
    }

    /// The whole numbers of a tensor.
    ///
    /// # Errors
    /// If there is no such tensor, it holds weights, or it cannot be read.
    pub fn integers(&self, name: &str) -> Result<Vec<i64>, Error> {
        let (part, tensor) = self.find(name).ok_or_else(|| self.missing(name))?;
        if let Some(kind) = tensor.kind() {
            let what = format!("tensor {name} is of type {}; supported is: I64", kind.name());
            return Err(part.file.fault(what));
        }
        let mut numbers = Vec::with_capacity(tensor.shape().iter().product());
        let hash = part.file.hashed(tensor.place(), size_of::<i64>(), |piece| {
            let (whole, _) = piece.as_chunks();
            numbers.extend(whole.iter().map(|&bytes| i64::from_le_bytes(bytes)));
        })?;
        self.read.lock().insert(name.to_owned(), hash);
        Ok(numbers)
    }

    /// SHA-256 of all headers and of the tensors that were read so far. The names of the
    /// files have no effect.
    ///
    /// # Errors
    /// If a file was changed since it was opened.
    pub fn sha256(&self) -> Result<String, Error> {
        let mut hash = Sha256::new();
        for part in &self.parts {
            part.file.check_unchanged()?;
            hash.update(part.header.sha256);
        }
        for (name, tensor) in self.read.lock().iter() {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            hash.update(tensor);
        }
        Ok(hex(&hash.finalize()))
    }

    /// The error for the file that holds a tensor, or the first one.
    pub(super) fn fault(&self, tensor: &str, what: impl AsRef<str>) -> Error {
        self.find(tensor).map_or(&self.parts[0], |(part, _)| part).file.fault(what)
    }

    /// The error for a tensor that is not there.
    pub(super) fn missing(&self, tensor: &str) -> Error {
        self.fault(tensor, format!("tensor {tensor} is missing"))
    }

    fn find(&self, name: &str) -> Option<(&FilePart, &StoredTensor)> {
        let mut parts = self.parts.iter();
        parts.find_map(|part| Some((part, part.header.tensors.get(name)?)))
    }

    fn read(
        &self,
        name: &str,
        entries: Option<Range<usize>>,
        mut each: impl FnMut(TensorKind, &[u8]),
    ) -> Result<(), Error> {
        let (part, tensor) = self.find(name).ok_or_else(|| self.missing(name))?;
        let wrong = || part.file.fault(format!("tensor {name} {}", not_weights("I64")));
        let kind = tensor.kind().ok_or_else(wrong)?;
        let (mut place, mut read) = (tensor.place(), name.to_owned());
        if let Some(Range { start, end }) = entries {
            let bytes = |entries: usize| (entries / kind.length() * kind.bytes()) as u64;
            place = (place.0 + bytes(start), bytes(end) - bytes(start));
            read += &format!("[{start}..{end}]");
        }
        let mut finite = true;
        let hash = part.file.hashed(place, kind.bytes(), |piece| {
            finite &= kind.is_finite(piece);
            each(kind, piece);
        })?;
        if !finite {
            return Err(not_finite(part.file.path(), name));
        }
        self.read.lock().insert(read, hash);
        Ok(())
    }
}
