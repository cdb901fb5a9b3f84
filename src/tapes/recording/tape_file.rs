//! A tape on disk. It grows by whole lines, so a crash loses at most one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use flate2::bufread::MultiGzDecoder;

use super::compile_grammars;
use super::parquet::{PARQUET, read_parquet};
use crate::core::error::Error;
use crate::io::input::open_stream;
use crate::io::output::open_in_place;
use crate::model::Loaded;
use crate::tapes::tape::{ReadTape, Tape, TapeHeader, TapeLine, read_tape};

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A tape that is being written. Nothing else may write to the file meanwhile.
#[derive(Debug)]
pub struct TapeFile {
    file: File,
    path: PathBuf,
    tape: Tape,
}

impl TapeFile {
    /// Creates a tape, or continues an existing one.
    ///
    /// # Errors
    /// If the file cannot be written or holds something else, or another process writes to it.
    pub fn begin(path: &Path, header: &TapeHeader) -> Result<Self> {
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).open(path) {
            Ok(file) => {
                locked(&file, path)?;
                let tape = Tape::new(header.clone()).map_err(|why| Error::file(path, why))?;
                let mut new = Self { file, path: path.to_owned(), tape };
                new.put(&written(&TapeLine::Tape(header.clone()))?)?;
                Ok(new)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Self::open(path),
            Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
        }
    }

    /// Opens a tape to append to; removes a line that a crash has truncated.
    ///
    /// # Errors
    /// If it cannot be read or written, is compressed, or another process writes to it.
    pub fn open(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let mut options = OpenOptions::new();
        let file = open_in_place(options.read(true).append(true), path).with_context(cannot)?;
        locked(&file, path)?;
        let mut reader = BufReader::new(&file);
        let begin = reader.fill_buf().with_context(cannot)?;
        if begin.starts_with(&GZIP) || begin.starts_with(&PARQUET) {
            bail!("{} is compressed: unpack it before you append to it", path.display());
        }
        let ReadTape { tape, whole } = read_tape(reader, path)?;
        file.set_len(whole).with_context(cannot)?;
        Ok(Self { file, path: path.to_owned(), tape })
    }

    /// What it holds.
    pub fn tape(&self) -> &Tape {
        &self.tape
    }

    /// Makes the rules of its grammars for the tokens of a model ([`compile_grammars`]).
    ///
    /// # Errors
    /// If a grammar is invalid, or the tokenizer does not say what its tokens stand for.
    pub fn compile_grammars(&mut self, model: &Loaded) -> Result<(), Error> {
        compile_grammars(&mut self.tape, model)
    }

    /// Appends a line.
    ///
    /// # Errors
    /// If it does not fit the lines before it, or cannot be written.
    pub fn append(&mut self, line: TapeLine) -> Result<()> {
        let text = written(&line)?;
        self.tape.add(line).map_err(|why| Error::file(&self.path, why))?;
        self.put(&text)
    }

    fn put(&mut self, line: &[u8]) -> Result<()> {
        let before = self.file.seek(SeekFrom::End(0));
        let written = self.file.write_all(line);
        if written.is_err() {
            // A full disk may have taken a part of the line.
            let _ = before.and_then(|before| self.file.set_len(before));
        }
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// The bytes of a line in the file.
fn written(line: &TapeLine) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    Ok(text)
}

/// Reads a tape: JSON lines, plain or compressed by gzip, or Parquet.
///
/// # Errors
/// If it cannot be read, or a line is not one of a tape; names the file and the line.
pub fn read_tape_file(path: &Path) -> Result<Tape> {
    match Opened::open(path)? {
        Opened::Parquet(file) => read_parquet(file, path),
        Opened::Lines(lines) => Ok(read_tape(lines, path)?.tape),
    }
}

/// A file open for reading.
pub(super) enum Opened {
    /// A tape in Parquet.
    Parquet(File),
    /// Lines, unpacked if they were compressed.
    Lines(Box<dyn BufRead>),
}

impl Opened {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let why = |error| Error::file(path, error);
        let mut reader = BufReader::new(open_stream(path).map_err(why)?);
        let begin = reader.fill_buf().map_err(why)?;
        if begin.starts_with(&PARQUET) {
            let mut file = reader.into_inner();
            file.rewind().map_err(why)?;
            return Ok(Self::Parquet(file));
        }
        let packed = begin.starts_with(&GZIP);
        Ok(Self::Lines(if packed {
            Box::new(BufReader::new(MultiGzDecoder::new(reader)))
        } else {
            Box::new(reader)
        }))
    }
}

fn locked(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(anyhow!("{} is being written by another process", path.display()))
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}
