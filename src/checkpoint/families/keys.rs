//! The keys of a configuration, read with their types.

use std::path::Path;

use serde_json::{Map, Value};

use crate::core::error::Error;

/// The largest size that is read. It is far above any real model, and keeps products of
/// two sizes within a machine word.
const MOST: usize = 1 << 30;

/// A table of a configuration. A key with the value `null` counts as absent.
#[derive(Debug, Clone)]
pub(crate) struct ConfigKeys<'a> {
    file: &'a Path,
    /// The tables that it lies in, each followed by a dot.
    within: String,
    table: &'a Map<String, Value>,
}

impl<'a> ConfigKeys<'a> {
    /// The keys of a whole file.
    pub(crate) fn new(file: &'a Path, table: &'a Map<String, Value>) -> Self {
        Self { file, within: String::new(), table }
    }

    /// The error for a fault in the file.
    pub(in crate::checkpoint) fn fault(&self, what: impl AsRef<str>) -> Error {
        Error::file(self.file, what.as_ref())
    }

    /// A key with the tables that it lies in.
    pub(in crate::checkpoint) fn path(&self, key: &str) -> String {
        format!("{}{key}", self.within)
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.table.get(key).filter(|value| !value.is_null())
    }

    /// The value of a key, turned into `T`.
    fn typed<T>(
        &self,
        key: &str,
        what: &str,
        turn: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        turn(value).map(Some).ok_or_else(|| self.wrong(key, value, what))
    }

    fn wrong(&self, key: &str, value: impl std::fmt::Display, what: &str) -> Error {
        self.fault(format!("{} is {value}, but must be {what}", self.path(key)))
    }

    /// The value of a key that must be there.
    pub(in crate::checkpoint) fn required<T>(
        &self,
        key: &str,
        value: Option<T>,
    ) -> Result<T, Error> {
        value.ok_or_else(|| self.fault(format!("{} is missing", self.path(key))))
    }

    /// A size: a whole number from 1 to 2³⁰.
    pub(in crate::checkpoint) fn size(&self, key: &str) -> Result<Option<usize>, Error> {
        self.size_up_to(MOST, key)
    }

    /// A whole number from 1 to `most`.
    pub(in crate::checkpoint) fn size_up_to(
        &self,
        most: usize,
        key: &str,
    ) -> Result<Option<usize>, Error> {
        let fits = |n: &usize| (1..=most).contains(n);
        let size = |value: &Value| value.as_u64().map(|n| n as usize).filter(fits);
        self.typed(key, &format!("a whole number from 1 to {most}"), size)
    }

    /// A size, or −1 for a size without a limit.
    pub(in crate::checkpoint) fn size_or_all(&self, key: &str) -> Result<Option<usize>, Error> {
        let size = |value: &Value| match value.as_i64()? {
            -1 => Some(usize::MAX),
            n => usize::try_from(n).ok().filter(|n| (1..=MOST).contains(n)),
        };
        self.typed(key, &format!("a whole number from 1 to {MOST}, or -1"), size)
    }

    /// A whole number that may be 0.
    pub(in crate::checkpoint) fn count(&self, key: &str) -> Result<Option<usize>, Error> {
        let size = |value: &Value| value.as_u64().map(|n| n as usize).filter(|&n| n <= MOST);
        self.typed(key, &format!("a whole number from 0 to {MOST}"), size)
    }

    /// A list of whole numbers that may be 0.
    pub(in crate::checkpoint) fn counts(&self, key: &str) -> Result<Option<Vec<usize>>, Error> {
        let count = |value: &Value| value.as_u64().map(|n| n as usize).filter(|&n| n <= MOST);
        self.typed(key, "a list of whole numbers", |value| {
            value.as_array()?.iter().map(count).collect()
        })
    }

    /// A list of numbers of layers, where −1 comes before the first one.
    pub(in crate::checkpoint) fn layer_ids(&self, key: &str) -> Result<Option<Vec<i64>>, Error> {
        let id = |value: &Value| value.as_i64().filter(|id| (-1..=MOST as i64).contains(id));
        self.typed(key, "a list of whole numbers from -1", |value| {
            value.as_array()?.iter().map(id).collect()
        })
    }

    /// A number above 0.
    pub(in crate::checkpoint) fn positive(&self, key: &str) -> Result<Option<f64>, Error> {
        self.typed(key, "a number > 0", |value| {
            value.as_f64().filter(|&x| x > 0.0 && f64::is_finite(x))
        })
    }

    /// A number that is not negative.
    pub(super) fn not_negative(&self, key: &str) -> Result<Option<f64>, Error> {
        self.typed(key, "a number >= 0", |value| {
            value.as_f64().filter(|&x| x >= 0.0 && f64::is_finite(x))
        })
    }

    /// `true` or `false`.
    pub(in crate::checkpoint) fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// A string.
    pub(in crate::checkpoint) fn text(&self, key: &str) -> Result<Option<&'a str>, Error> {
        self.typed(key, "a string", Value::as_str)
    }

    /// A string that is one of some, with what it stands for.
    pub(in crate::checkpoint) fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, Error> {
        let named = |value: &Value| {
            let found = choices.iter().find(|(name, _)| value.as_str() == Some(name));
            found.map(|&(_, choice)| choice)
        };
        let names = choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        self.typed(key, &format!("one of {names}"), named)
    }

    /// A list of positive numbers.
    pub(super) fn positives(&self, key: &str) -> Result<Option<Vec<f64>>, Error> {
        let number = |value: &Value| value.as_f64().filter(|&x| x > 0.0 && f64::is_finite(x));
        self.typed(key, "a list of numbers > 0", |value| {
            value.as_array()?.iter().map(number).collect()
        })
    }

    /// A list of strings.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<&'a str>>, Error> {
        self.typed(key, "a list of strings", |value| {
            value.as_array()?.iter().map(Value::as_str).collect()
        })
    }

    /// A list of whole numbers, or of `true` and `false`, which stand for 1 and 0.
    pub(super) fn switches(&self, key: &str) -> Result<Option<Vec<bool>>, Error> {
        let switch = |value: &Value| match value.as_u64() {
            Some(n) => Some(n != 0),
            None => value.as_bool(),
        };
        self.typed(key, "a list of 0 and 1", |value| value.as_array()?.iter().map(switch).collect())
    }

    /// The value of a size that `null` removes and that has a default.
    pub(super) fn size_or_none(&self, key: &str, default: usize) -> Result<Option<usize>, Error> {
        if self.table.contains_key(key) { self.size(key) } else { Ok(Some(default)) }
    }

    /// The value of a positive number that `null` removes and that has a default.
    pub(super) fn positive_or_none(&self, key: &str, default: f64) -> Result<Option<f64>, Error> {
        if self.table.contains_key(key) { self.positive(key) } else { Ok(Some(default)) }
    }

    /// A table.
    pub(in crate::checkpoint) fn table(&self, key: &str) -> Result<Option<ConfigKeys<'a>>, Error> {
        let table = self.typed(key, "a table", Value::as_object)?;
        let within = format!("{}{key}.", self.within);
        Ok(table.map(|table| ConfigKeys { file: self.file, within, table }))
    }

    /// The tables in a table.
    pub(in crate::checkpoint) fn tables(&self, key: &str) -> Result<Vec<ConfigKeys<'a>>, Error> {
        let Some(all) = self.table(key)? else { return Ok(Vec::new()) };
        all.table.keys().filter_map(|name| all.table(name).transpose()).collect()
    }

    /// Refuses keys but some.
    pub(super) fn allow(&self, known: impl Fn(&str) -> bool) -> Result<(), Error> {
        match self.table.keys().find(|key| !known(key)) {
            None => Ok(()),
            Some(key) => Err(self.fault(format!("{} is not supported", self.path(key)))),
        }
    }

    /// A key that is not supported if it is there.
    pub(in crate::checkpoint) fn refuse(&self, key: &str, what: &str) -> Result<(), Error> {
        let refused = || self.fault(format!("{what} ({}) are not supported", self.path(key)));
        self.get(key).map_or(Ok(()), |_| Err(refused()))
    }
}
