//! An open file, on disk or embedded in the program.

use std::fs::{File, FileType};
use std::io::{self, Read};
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
        open_file(path).map(Self::Disk)
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

    /// The bytes from offset `at` on. Readers do not disturb each other.
    pub(crate) fn from(&self, at: u64) -> Box<dyn Read + '_> {
        match self {
            Self::Disk(file) => Box::new(ReadAt { file, at }),
            Self::Shipped(bytes) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                Box::new(&bytes[at..])
            }
        }
    }
}

/// A place in a file from which bytes are read.
struct ReadAt<'f> {
    file: &'f File,
    at: u64,
}

impl Read for ReadAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let count = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.at)?;
        #[cfg(windows)]
        let count = std::os::windows::fs::FileExt::seek_read(self.file, buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Opens a regular file, or what a link to one leads to. Opening a FIFO could block for ever.
///
/// # Errors
/// If it is missing, not a regular file, or not readable by this user.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    match not_regular(std::fs::metadata(path)?.file_type()) {
        Some(error) => Err(error),
        None => File::open(path),
    }
}

/// [`open_file`], or opens what a descriptor of this process reads, such as the shell's `<(…)`:
/// its other end is open already.
///
/// # Errors
/// As [`open_file`].
pub(crate) fn open_stream(path: &Path) -> io::Result<File> {
    if names_descriptor(path) { File::open(path) } else { open_file(path) }
}

/// Whether a path names a descriptor of this process instead of a file.
pub(crate) fn names_descriptor(path: &Path) -> bool {
    const NAMES: [&str; 5] =
        ["/dev/fd", "/proc/self/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"];
    NAMES.iter().any(|name| path.starts_with(name))
}

/// The error that names what something is that is not a regular file.
pub(crate) fn not_regular(found: FileType) -> Option<io::Error> {
    let kind = if found.is_dir() { "a folder" } else { special(found) };
    (!found.is_file()).then(|| io::Error::other(format!("{kind}, not a regular file")))
}

#[cfg(unix)]
fn special(found: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if found.is_symlink() {
        "a symbolic link"
    } else if found.is_fifo() {
        "a FIFO"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn special(found: FileType) -> &'static str {
    if found.is_symlink() { "a symbolic link" } else { "a device" }
}
