//! Files of checkpoints: opened once, read in pieces and hashed as they are read.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::core::error::Error;
use crate::io::input::{OpenedFile, Stamp};

/// About how many bytes are read at once: they stay in the cache while they are used.
const PIECE: usize = 1 << 18;

/// A regular file that stays open, so all reads see the same file even if another one
/// takes its name.
#[derive(Debug)]
pub(super) struct OpenFile {
    path: PathBuf,
    file: OpenedFile,
    stamp: Stamp,
}

impl OpenFile {
    /// Opens a regular file.
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let file = open(&path)?;
        let stamp = file.stamp().map_err(|e| unreadable(&path, &e))?;
        Ok(Self { path, file, stamp })
    }

    /// The path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Length in bytes when it was opened.
    pub(super) fn length(&self) -> u64 {
        self.stamp.length
    }

    /// Calls `each` with `length` bytes from `start`, in pieces that are multiples of `unit`
    /// bytes, and returns the SHA-256 of all of them.
    pub(super) fn hashed(
        &self,
        (start, length): (u64, u64),
        unit: usize,
        mut each: impl FnMut(&[u8]),
    ) -> Result<[u8; 32], Error> {
        let mut from = self.from(start);
        let piece = (PIECE / unit).max(1) * unit;
        let mut buffer = vec![0; length.min(piece as u64) as usize];
        let mut hash = Sha256::new();
        let mut left = length;
        while left > 0 {
            let piece = &mut buffer[..left.min(piece as u64) as usize];
            from.read_exact(piece).map_err(|e| self.failed(&e))?;
            hash.update(&*piece);
            each(piece);
            left -= piece.len() as u64;
        }
        Ok(hash.finalize().into())
    }

    /// `length` bytes from `start`, which the caller has compared with the length of the file.
    pub(super) fn bytes(&self, start: u64, length: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; length];
        self.from(start).read_exact(&mut bytes).map_err(|e| self.failed(&e))?;
        Ok(bytes)
    }

    /// The error for a read of bytes that the file had when it was opened.
    pub(super) fn failed(&self, why: &io::Error) -> Error {
        match why.kind() {
            ErrorKind::UnexpectedEof => self.changed(),
            _ => unreadable(&self.path, why),
        }
    }

    /// Checks that the file has not been changed since it was opened.
    pub(super) fn check_unchanged(&self) -> Result<(), Error> {
        let now = self.file.stamp().map_err(|e| unreadable(&self.path, &e))?;
        if now == self.stamp { Ok(()) } else { Err(self.changed()) }
    }

    /// The error for a fault in this file.
    pub(super) fn fault(&self, what: impl AsRef<str>) -> Error {
        Error::file(&self.path, what.as_ref())
    }

    /// The file from a byte on.
    pub(super) fn from(&self, start: u64) -> Box<dyn Read + '_> {
        self.file.from(start)
    }

    fn changed(&self) -> Error {
        self.fault("was changed while it was read: wait until it is complete, and try again")
    }
}

/// Opens a regular file.
pub(super) fn open(file: &Path) -> Result<OpenedFile, Error> {
    OpenedFile::open(file).map_err(|e| unreadable(file, &e))
}

/// The error for weights that no engine can compute with.
pub(super) fn not_finite(file: &Path, tensor: &str) -> Error {
    Error::file(file, format!("tensor {tensor} holds NaN or infinite weights"))
}

/// The error for a file that the system cannot read.
pub(super) fn unreadable(file: &Path, why: &io::Error) -> Error {
    Error::file(file, format_args!("cannot be read: {why}"))
}
