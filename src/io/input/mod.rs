//! Reads files that users name, up to a maximum size, and files embedded in the program.

#[cfg(feature = "harness")]
mod caught;
mod foreign;
mod opened;
mod shipped;

use std::io::{self, Read};
use std::path::Path;

#[cfg(feature = "harness")]
pub use self::caught::READS_DAMAGED;
#[cfg(feature = "harness")]
pub(crate) use self::caught::caught;
pub(crate) use self::foreign::foreign;
pub(crate) use self::opened::{OpenedFile, Stamp, open_stream};
#[cfg(feature = "harness")]
pub(crate) use self::opened::{names_descriptor, not_regular, open_file};
pub use self::shipped::{ShippedFile, is_shipped, ship, shipped_root};
use self::shipped::{shipped, shipped_in};
use crate::core::error::Error;

/// The largest file that is read as a whole, in MiB: eight times the tokenizer file of
/// a vocabulary of 256k tokens.
const MOST_MIB: u64 = 256;

/// The text of a regular file.
///
/// # Errors
/// If there is no such file, it is a device, a pipe or a folder, is larger than
/// 256 MiB, or is not UTF-8 text.
pub fn read_text(file: &Path) -> Result<String, Error> {
    // Opening a pipe would block until another process opens it for writing.
    let opened = OpenedFile::open(file).and_then(|opened| read_whole(opened.from(0)));
    as_text(opened.map_err(|error| Error::file(file, error))?, file)
}

/// The text of a regular file, or of the shell's `<(…)`, which can be read once.
///
/// # Errors
/// As [`read_text`].
pub fn read_any_text(file: &Path) -> Result<String, Error> {
    read_text_from(open_stream(file).map_err(|error| Error::file(file, error))?, file)
}

/// The text from an open reader; error messages call it `file`.
///
/// # Errors
/// As [`read_any_text`].
pub fn read_text_from(opened: impl Read, file: &Path) -> Result<String, Error> {
    as_text(read_whole(opened).map_err(|error| Error::file(file, error))?, file)
}

fn as_text(bytes: Vec<u8>, file: &Path) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|_| Error::file(file, "not UTF-8 text"))
}

/// Whether there is a file or folder of this name; a dangling link counts, and reading it
/// then fails.
pub fn is_there(path: &Path) -> bool {
    shipped(path).is_some() || path.symlink_metadata().is_ok()
}

/// The names of the entries of a folder; none if it cannot be read.
pub fn names_in(folder: &Path) -> Vec<String> {
    let mut names = shipped_in(folder);
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names.extend(files.map(|file| file.file_name().to_string_lossy().into_owned()));
    names
}

/// All bytes from an open reader, at most 256 MiB.
pub(crate) fn read_whole(opened: impl Read) -> io::Result<Vec<u8>> {
    let (mut bytes, most) = (Vec::new(), MOST_MIB << 20);
    opened.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let what = format!("larger than {MOST_MIB} MiB, the maximum");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}
