//! Text files that people name, of a size that can be meant.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The largest file that is read as text, in bytes.
const MOST_BYTES: u64 = 1 << 28;

/// Why a file cannot be read as text.
#[derive(Debug, Error)]
#[error("{}: {why}", file.display())]
pub struct InputError {
    file: PathBuf,
    why: String,
}

/// The text of a regular file.
///
/// # Errors
/// If there is no such file, it is a device, a pipe or a folder, is larger than
/// 268 MB, or is not UTF-8 text.
pub fn read_text(file: &Path) -> Result<String, InputError> {
    // Opening a pipe would already wait for whoever writes to it.
    match file.metadata() {
        Ok(found) if !found.is_file() => Err(refused(file, "not a regular file")),
        _ => read_any_text(file),
    }
}

/// The text of a file of any kind, a pipe included.
///
/// # Errors
/// If it cannot be read, is larger than 268 MB, or is not UTF-8 text.
pub fn read_any_text(file: &Path) -> Result<String, InputError> {
    read_text_from(File::open(file).map_err(|error| refused(file, error))?, file)
}

/// The text of what is open already, which messages call `file`.
///
/// # Errors
/// As [`read_any_text`].
pub fn read_text_from(opened: impl Read, file: &Path) -> Result<String, InputError> {
    let mut bytes = Vec::new();
    let read = opened.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| refused(file, error))?;
    if bytes.len() as u64 > MOST_BYTES {
        let most = MOST_BYTES / 1_000_000;
        return Err(refused(file, format_args!("larger than {most} MB, the most that is read")));
    }
    String::from_utf8(bytes).map_err(|_| refused(file, "not UTF-8 text"))
}

fn refused(file: &Path, why: impl ToString) -> InputError {
    InputError { file: file.to_owned(), why: why.to_string() }
}
