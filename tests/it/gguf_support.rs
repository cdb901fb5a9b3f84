//! A little writer of GGUF files, valid or not.

use std::fs;
use std::path::{Path, PathBuf};

use specdec::Error;
use specdec::checkpoint::gguf::{GgufCheckpoint, GgufFile};

use crate::damage_support::says;

/// A file to be written.
#[derive(Debug, Clone)]
pub(crate) struct Gguf {
    pub(crate) version: u32,
    /// Stated in the metadata unless it is 32.
    pub(crate) alignment: u32,
    pub(crate) pairs: Vec<(String, Encoded)>,
    pub(crate) tensors: Vec<Tensor>,
}

/// A value of the metadata: its type and its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    pub(crate) kind: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A tensor with its data.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// As in Hugging Face checkpoints: rows first.
    pub(crate) shape: Vec<u64>,
    pub(crate) kind: u32,
    pub(crate) bytes: Vec<u8>,
    /// Where it begins, unless it follows the tensor before.
    pub(crate) offset: Option<u64>,
}

impl Default for Gguf {
    fn default() -> Self {
        Self { version: 3, alignment: 32, pairs: Vec::new(), tensors: Vec::new() }
    }
}

macro_rules! numbers {
    ($($type:ty => $kind:literal),*) => {$(
        impl From<$type> for Encoded {
            fn from(value: $type) -> Self {
                Self { kind: $kind, bytes: value.to_le_bytes().to_vec() }
            }
        }
    )*};
}

numbers!(u8 => 0, i8 => 1, u16 => 2, i16 => 3, u32 => 4, i32 => 5, f32 => 6, u64 => 10, i64 => 11, f64 => 12);

impl From<bool> for Encoded {
    fn from(value: bool) -> Self {
        Self { kind: 7, bytes: vec![u8::from(value)] }
    }
}

impl From<&str> for Encoded {
    fn from(text: &str) -> Self {
        Self { kind: 8, bytes: with_length(text.as_bytes()) }
    }
}

impl<T: Into<Encoded>> From<Vec<T>> for Encoded {
    /// A list that is not empty.
    fn from(list: Vec<T>) -> Self {
        let list = list.into_iter().map(Into::into).collect::<Vec<Encoded>>();
        let head = [&list[0].kind.to_le_bytes()[..], &(list.len() as u64).to_le_bytes()].concat();
        let bytes = list.into_iter().fold(head, |bytes, entry| [bytes, entry.bytes].concat());
        Self { kind: 9, bytes }
    }
}

/// A length of eight bytes, then these bytes.
pub(crate) fn with_length(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes()[..], bytes].concat()
}

/// A tensor of f32.
pub(crate) fn plain(name: &str, shape: &[usize], weights: &[f32]) -> Tensor {
    let bytes = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let shape = shape.iter().map(|&size| size as u64).collect();
    Tensor { name: name.to_owned(), shape, kind: 0, bytes, offset: None }
}

impl Gguf {
    /// With another key, or another value for a key.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Encoded>) -> Self {
        self = self.without(key);
        self.pairs.push((key.to_owned(), value.into()));
        self
    }

    /// Without a key.
    pub(crate) fn without(mut self, key: &str) -> Self {
        self.pairs.retain(|pair| pair.0 != key);
        self
    }

    /// With another tensor, or another one of this name.
    pub(crate) fn with_tensor(mut self, tensor: Tensor) -> Self {
        self = self.without_tensor(&tensor.name);
        self.tensors.push(tensor);
        self
    }

    /// Without a tensor.
    pub(crate) fn without_tensor(mut self, name: &str) -> Self {
        self.tensors.retain(|tensor| tensor.name != name);
        self
    }

    /// The bytes of the file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut pairs = self.pairs.clone();
        if self.alignment != 32 {
            pairs.insert(0, ("general.alignment".to_owned(), self.alignment.into()));
        }
        let mut file = b"GGUF".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((pairs.len() as u64).to_le_bytes());
        for (key, value) in &pairs {
            file.extend(with_length(key.as_bytes()));
            file.extend(value.kind.to_le_bytes());
            file.extend(&value.bytes);
        }
        let mut data = Vec::new();
        for tensor in &self.tensors {
            data.resize(data.len().next_multiple_of(self.alignment as usize), 0);
            file.extend(with_length(tensor.name.as_bytes()));
            file.extend((tensor.shape.len() as u32).to_le_bytes());
            tensor.shape.iter().rev().for_each(|size| file.extend(size.to_le_bytes()));
            file.extend(tensor.kind.to_le_bytes());
            file.extend(tensor.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&tensor.bytes);
        }
        if !data.is_empty() {
            file.resize(file.len().next_multiple_of(self.alignment as usize), 0);
        }
        file.extend(data);
        file
    }
}

/// A folder that is removed at the end.
#[derive(Debug)]
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

/// The file with these bytes. It can be read, since it is open, although it has no name
/// any more.
pub(crate) fn opened(bytes: &[u8]) -> Result<GgufFile, Error> {
    let folder = Folder::new();
    GgufFile::open(folder.write("model.gguf", bytes))
}

/// The checkpoint in the file with these bytes.
pub(crate) fn checkpoint(bytes: &[u8]) -> Result<GgufCheckpoint, Error> {
    let folder = Folder::new();
    GgufCheckpoint::open(folder.write("model.gguf", bytes))
}

/// Asserts that a result is an error of one line that says all of this.
#[track_caller]
pub(crate) fn refused<T>(result: Result<T, Error>, parts: &[&str]) {
    let Err(error) = result else { panic!("not refused: {parts:?}") };
    let sentence = error.to_string();
    assert!(!sentence.contains('\n'), "more than one line: {sentence}");
    says(&sentence, parts);
}
