//! Typed access to the metadata of an architecture, with faults that name the key.

use serde_json::{Value, json};

use super::architecture::Architecture;
use super::file::GgufFile;
use super::metadata::{Metadata, MetadataList, MetadataValue};
use crate::core::error::Error;

/// The largest size that is read: far above any real model; products of two sizes stay
/// within a machine word.
const MOST: u64 = 1 << 30;

/// The metadata of a file whose architecture is known. A value of another type than the one that
/// is asked for, or out of range, is an error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys<'a> {
    pub(super) file: &'a GgufFile,
    pub(super) architecture: &'static Architecture,
}

impl<'a> Keys<'a> {
    /// A size from 1 up that the file must have.
    pub(super) fn size(self, name: &str) -> Result<usize, Error> {
        self.optional_size(name)?.ok_or_else(|| self.fault(name, "is missing"))
    }

    /// A size from 1 up, or a list of equal ones: some files have one per layer.
    pub(super) fn optional_size(self, name: &str) -> Result<Option<usize>, Error> {
        let key = self.key(name);
        let Some(MetadataValue::List(MetadataList::Scalars(list))) = self.metadata().get(&key)
        else {
            let size = self.metadata().count(&key)?;
            return size.map(|size| self.in_range(name, size)).transpose();
        };
        let mut sizes = list.iter().map(|value| value.as_count());
        let first = sizes.next().flatten();
        match first.filter(|_| sizes.all(|size| size == first)) {
            Some(size) => self.in_range(name, size).map(Some),
            None => Err(self.fault(name, "differs between layers, which is not supported")),
        }
    }

    /// A whole number, absent if it is 0.
    pub(super) fn nonzero(self, name: &str) -> Result<Option<usize>, Error> {
        let count = self.metadata().count(&self.key(name))?.filter(|&count| count > 0);
        count.map(|count| self.in_range(name, count)).transpose()
    }

    /// A finite number.
    pub(super) fn number(self, name: &str) -> Result<Option<f64>, Error> {
        self.metadata().number(&self.key(name))
    }

    /// A number above 0.
    pub(super) fn positive(self, name: &str) -> Result<Option<f64>, Error> {
        match self.number(name)? {
            Some(number) if number <= 0.0 => {
                Err(self.fault(name, &format!("is {number}, but must be > 0")))
            }
            number => Ok(number),
        }
    }

    /// A number above 0 as JSON, null where there is none.
    pub(super) fn positive_or_null(self, name: &str) -> Result<Value, Error> {
        Ok(self.positive(name)?.map_or(Value::Null, |number| json!(number)))
    }

    /// A text.
    pub(super) fn text(self, name: &str) -> Result<Option<&'a str>, Error> {
        self.metadata().text(&self.key(name))
    }

    /// The error for a key.
    pub(super) fn fault(self, name: &str, what: &str) -> Error {
        self.metadata().fault(&self.key(name), what)
    }

    /// The whole key.
    pub(super) fn key(self, name: &str) -> String {
        format!("{}.{name}", self.architecture.name)
    }

    pub(super) fn metadata(self) -> &'a Metadata {
        self.file.metadata()
    }

    fn in_range(self, name: &str, size: u64) -> Result<usize, Error> {
        if (1..=MOST).contains(&size) {
            return Ok(size as usize);
        }
        Err(self.fault(name, &format!("is {size}, which is out of range: 1 to {MOST}")))
    }
}
