//! An open file, on disk or embedded in the program.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

use super::shipped::shipped;

/// A regular file that is open for reading.
#[derive(Debug)]
pub(crate) enum OpenedFile {
    /// On disk.
    Disk(File),
    /// In the program.
    Shipped(&'static [u8]),
}

/// Metadata that shows whether a file has changed since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Length in bytes.
    pub(crate) length: u64,
    modified: Option<SystemTime>,
}

impl OpenedFile {
    /// Opens a regular file; other kinds could block or never end.
    ///
    /// # Errors
    /// If it is missing, not a regular file, or not readable by this user.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if let Some(bytes) = shipped(path) {
            return Ok(Self::Shipped(bytes));
        }
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        File::open(path).map(Self::Disk)
    }

    /// The stamp of the file.
    pub(crate) fn stamp(&self) -> io::Result<Stamp> {
        Ok(match self {
            Self::Disk(file) => {
                let metadata = file.metadata()?;
                Stamp { length: metadata.len(), modified: metadata.modified().ok() }
            }
            Self::Shipped(bytes) => Stamp { length: bytes.len() as u64, modified: None },
        })
    }

    /// The bytes from offset `at` on. All readers of a file on disk share its position, so only the
    /// newest one may be used.
    pub(crate) fn from(&self, at: u64) -> io::Result<Box<dyn Read + '_>> {
        match self {
            Self::Disk(file) => {
                let mut file = file;
                file.seek(SeekFrom::Start(at))?;
                Ok(Box::new(file))
            }
            Self::Shipped(bytes) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                Ok(Box::new(&bytes[at..]))
            }
        }
    }
}
