//! Reads the whole lines of a raw file, plain or compressed, a piece at a time.

use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::io::input::open_file;

/// How many bytes are read at once.
const PIECE: usize = 1 << 16;

/// The text of a file up to its last line break. A last line without one was torn by a
/// crash and is withheld; no row has a line break inside.
pub(super) struct WholeLines {
    source: Box<dyn Read + Send>,
    /// What was read and not yet given: whole lines, then the beginning of the next one.
    held: Vec<u8>,
    /// The part of `held` that was given.
    given: usize,
    /// The part of `held` that consists of whole lines.
    whole: usize,
    ended: bool,
}

/// The text of a file is not UTF-8.
#[derive(Debug)]
pub(super) struct NotUtf8;

impl fmt::Display for NotUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is not UTF-8 text")
    }
}

impl Error for NotUtf8 {}

/// The name of a raw file's compressed version, as in committed runs.
pub(crate) fn compressed(file: &Path) -> PathBuf {
    let mut name = file.to_owned().into_os_string();
    name.push(".gz");
    name.into()
}

impl WholeLines {
    /// Opens a file or, if it does not exist, its compressed version.
    pub(super) fn open(file: &Path) -> io::Result<Self> {
        let source: Box<dyn Read + Send> = match open_file(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Box::new(MultiGzDecoder::new(open_file(&compressed(file)).map_err(|new| {
                    match new.kind() {
                        io::ErrorKind::NotFound => error,
                        _ => new,
                    }
                })?))
            }
            opened => Box::new(opened?),
        };
        Ok(Self { source, held: Vec::new(), given: 0, whole: 0, ended: false })
    }

    /// Whether the file has ended within a line.
    pub(super) fn is_torn(&self) -> bool {
        self.ended && self.whole < self.held.len()
    }

    /// Reads until there is another whole line, or the file ends.
    fn refill(&mut self) -> io::Result<()> {
        self.held.drain(..self.whole);
        (self.given, self.whole) = (0, 0);
        while self.whole == 0 && !self.ended {
            let before = self.held.len();
            let piece = self.source.by_ref().take(PIECE as u64).read_to_end(&mut self.held)?;
            let new = &self.held[before..];
            self.whole = new.iter().rposition(|&b| b == b'\n').map_or(0, |at| before + at + 1);
            self.ended = piece < PIECE;
        }
        let text = std::str::from_utf8(&self.held[..self.whole]);
        text.map(drop).map_err(|_| io::Error::other(NotUtf8))
    }
}

impl BufRead for WholeLines {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.given == self.whole && !self.ended {
            self.refill()?;
        }
        Ok(&self.held[self.given..self.whole])
    }

    fn consume(&mut self, bytes: usize) {
        self.given += bytes;
    }
}

impl Read for WholeLines {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}
