//! Metadata of a GGUF file: values by key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::core::error::Error;

/// The metadata of a file.
///
/// The typed getters return nothing for a key that is absent, and an error that names the
/// key if its value has another type.
#[derive(Debug, Clone, PartialEq)]
pub struct Metadata {
    file: PathBuf,
    values: BTreeMap<String, MetadataValue>,
}

/// A value; numbers are widened, which changes none of them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MetadataValue {
    /// One of the types u8, u16, u32 and u64.
    Unsigned(u64),
    /// One of the types i8, i16, i32 and i64.
    Signed(i64),
    /// f32 or f64.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(String),
    /// A list whose entries have one type.
    List(MetadataList),
}

/// A list whose entries have one type.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MetadataList {
    /// Numbers or truth values.
    Scalars(Scalars),
    /// Texts.
    Texts(Vec<String>),
    /// Lists.
    Lists(Vec<MetadataList>),
}

/// Numbers or truth values of one type, as they are stored: a list in memory is as long as
/// in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalars {
    kind: ScalarKind,
    bytes: Vec<u8>,
}

/// The types of single values that have a fixed length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarKind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    U64,
    I64,
    F64,
}

impl ScalarKind {
    /// The type with this number in the format.
    pub(super) fn from_id(id: u32) -> Option<Self> {
        Some(match id {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return None,
        })
    }

    /// Length of a value in bytes.
    pub(super) fn length(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The value that these bytes, as many as [`Self::length`], stand for.
    pub(super) fn value(self, bytes: &[u8]) -> MetadataValue {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(wide);
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => MetadataValue::Unsigned(bits),
            Self::I8 => MetadataValue::Signed(i64::from(bits as i8)),
            Self::I16 => MetadataValue::Signed(i64::from(bits as i16)),
            Self::I32 => MetadataValue::Signed(i64::from(bits as i32)),
            Self::I64 => MetadataValue::Signed(bits as i64),
            Self::F32 => MetadataValue::Float(f64::from(f32::from_bits(bits as u32))),
            Self::F64 => MetadataValue::Float(f64::from_bits(bits)),
            Self::Bool => MetadataValue::Bool(bits != 0),
        }
    }
}

impl Scalars {
    /// The values whose bytes, one after the other, are these.
    pub(super) fn new(kind: ScalarKind, bytes: Vec<u8>) -> Self {
        Self { kind, bytes }
    }

    /// The values in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = MetadataValue> {
        self.bytes.chunks_exact(self.kind.length()).map(|bytes| self.kind.value(bytes))
    }
}

impl MetadataList {
    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Scalars(scalars) => scalars.iter().len(),
            Self::Texts(texts) => texts.len(),
            Self::Lists(lists) => lists.len(),
        }
    }

    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl MetadataValue {
    /// It as a whole number of at least 0.
    #[must_use]
    pub fn as_count(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(number) => Some(number),
            Self::Signed(number) => u64::try_from(number).ok(),
            _ => None,
        }
    }

    /// It as a finite number.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match *self {
            Self::Unsigned(number) => Some(number as f64),
            Self::Signed(number) => Some(number as f64),
            Self::Float(number) => number.is_finite().then_some(number),
            _ => None,
        }
    }

    /// The value in words.
    fn shown(&self) -> String {
        match self {
            Self::Unsigned(number) => number.to_string(),
            Self::Signed(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::Text(_) => "a text".to_owned(),
            Self::List(list) => format!("a list of {}", list.len()),
        }
    }
}

impl Metadata {
    /// The metadata of `file`.
    pub(super) fn new(file: &Path, values: BTreeMap<String, MetadataValue>) -> Self {
        Self { file: file.to_owned(), values }
    }

    /// All keys with their values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MetadataValue)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value of a key, of any type.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&MetadataValue> {
        self.values.get(key)
    }

    /// A whole number of at least 0.
    ///
    /// # Errors
    /// If it is something else.
    pub fn count(&self, key: &str) -> Result<Option<u64>, Error> {
        self.typed(key, "a whole number >= 0", MetadataValue::as_count)
    }

    /// A finite number.
    ///
    /// # Errors
    /// If it is something else.
    pub fn number(&self, key: &str) -> Result<Option<f64>, Error> {
        self.typed(key, "a finite number", MetadataValue::as_number)
    }

    /// A truth value.
    ///
    /// # Errors
    /// If it is something else.
    pub fn truth(&self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "true or false", |value| match value {
            MetadataValue::Bool(value) => Some(*value),
            _ => None,
        })
    }

    /// A text.
    ///
    /// # Errors
    /// If it is something else.
    pub fn text(&self, key: &str) -> Result<Option<&str>, Error> {
        self.typed(key, "a text", |value| match value {
            MetadataValue::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// A list of texts.
    ///
    /// # Errors
    /// If it is something else.
    pub fn texts(&self, key: &str) -> Result<Option<&[String]>, Error> {
        self.typed(key, "a list of texts", |value| match value {
            MetadataValue::List(MetadataList::Texts(texts)) => Some(texts.as_slice()),
            _ => None,
        })
    }

    /// A list of numbers or of truth values.
    ///
    /// # Errors
    /// If it is something else.
    pub fn scalars(&self, key: &str) -> Result<Option<&Scalars>, Error> {
        self.typed(key, "a list of numbers or of truth values", |value| match value {
            MetadataValue::List(MetadataList::Scalars(scalars)) => Some(scalars),
            _ => None,
        })
    }

    /// The error for the value of a key.
    pub(super) fn fault(&self, key: &str, what: &str) -> Error {
        Error::file(&self.file, format_args!("metadata key {key} {what}"))
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        wanted: &str,
        read: impl Fn(&'a MetadataValue) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let wrong = || self.fault(key, &format!("is {}, but must be {wanted}", value.shown()));
        read(value).map(Some).ok_or_else(wrong)
    }
}
