//! Reading the header of a GGUF file item by item, never more than the file can hold.

use std::io::{BufReader, Read};

use sha2::{Digest, Sha256};

use crate::checkpoint::files::OpenFile;
use crate::core::error::Error;

/// The longest header in MiB: ten times that of a model with 256k tokens.
const MOST_MIB: u64 = 256;
/// The longest name in bytes, as the format has it.
const MOST_NAME: usize = 65_535;

/// A place in the header of a file. Every byte before it is part of the hash; to read beyond the
/// end of the file is an error.
pub(super) struct Cursor<'a> {
    file: &'a OpenFile,
    from: BufReader<Box<dyn Read + 'a>>,
    at: u64,
    hash: Sha256,
    /// What is read, for messages.
    within: String,
}

impl<'a> Cursor<'a> {
    /// The beginning of a file.
    pub(super) fn new(file: &'a OpenFile) -> Result<Self, Error> {
        let from = BufReader::new(file.from(0));
        Ok(Self { file, from, at: 0, hash: Sha256::new(), within: "its header".to_owned() })
    }

    /// Says what is read from here on.
    pub(super) fn enter(&mut self, what: String) {
        self.within = what;
    }

    /// Number of bytes before this place.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// SHA-256 of the bytes before this place.
    pub(super) fn hash(self) -> [u8; 32] {
        self.hash.finalize().into()
    }

    /// A number of four bytes.
    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of eight bytes.
    pub(super) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length, and a text of that many bytes.
    pub(super) fn text(&mut self) -> Result<String, Error> {
        let length = self.count(1)?;
        let bytes = self.bytes(length)?;
        String::from_utf8(bytes).map_err(|_| self.fault("holds a text that is not UTF-8"))
    }

    /// A text that names something: not empty, not very long, without control characters.
    pub(super) fn name(&mut self) -> Result<String, Error> {
        let name = self.text()?;
        if name.is_empty() || name.len() > MOST_NAME || name.contains(char::is_control) {
            return Err(self.fault("has a name that is empty, too long or not printable"));
        }
        Ok(name)
    }

    /// A number of items, each of which takes at least `least` bytes.
    pub(super) fn count(&mut self, least: usize) -> Result<usize, Error> {
        let count = self.u64()?;
        let bytes = count.checked_mul(least as u64);
        match usize::try_from(count) {
            Ok(count) if bytes.is_some_and(|bytes| bytes <= self.left()) => Ok(count),
            _ if least == 1 => Err(self.too_long(&format!("{count} bytes"))),
            _ => Err(self.too_long(&format!("{count} items of at least {least} bytes"))),
        }
    }

    /// The next bytes.
    pub(super) fn bytes(&mut self, length: usize) -> Result<Vec<u8>, Error> {
        if length as u64 > self.left() {
            return Err(self.too_long(&format!("{length} bytes")));
        }
        let mut bytes = vec![0; length];
        self.from.read_exact(&mut bytes).map_err(|e| self.file.failed(&e))?;
        self.at += length as u64;
        self.hash.update(&bytes);
        Ok(bytes)
    }

    /// The error for what is being read.
    pub(super) fn fault(&self, what: impl AsRef<str>) -> Error {
        self.file.fault(format!("{} {}", self.within, what.as_ref()))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes(N)?);
        Ok(array)
    }

    /// Number of bytes that the header can have from here on.
    fn left(&self) -> u64 {
        self.file.length().min(MOST_MIB << 20).saturating_sub(self.at)
    }

    fn too_long(&self, what: &str) -> Error {
        let rest = self.file.length().saturating_sub(self.at);
        if rest > self.left() {
            return self.fault(format!("has {what}, but a header has at most {MOST_MIB} MiB"));
        }
        let place = format!("{} has {what}, but {rest} bytes are left", self.within);
        self.file.fault(format!("not a complete GGUF file: {place}"))
    }
}
