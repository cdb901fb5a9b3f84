//! Settings of methods.
//!
//! A method lists the [`Param`]s that it reads in its registry entry. Their keys in
//! configs and on the command line, their checks, their rows in the docs and their part
//! in a cell's identity all derive from this list; no other code needs to know them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A setting that a method reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Param {
    /// The key in configs.
    pub key: &'static str,
    /// Names that other tools use for it.
    pub aliases: &'static [&'static str],
    /// One-line description.
    pub summary: &'static str,
    /// The allowed values and the default.
    pub kind: ParamKind,
}

/// The allowed values of a setting and its default. A setting without a default is
/// absent unless it is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParamKind {
    /// An integer in `least..=most`.
    Count {
        /// Default.
        default: Option<usize>,
        /// Smallest allowed.
        least: usize,
        /// Largest allowed.
        most: usize,
    },
    /// A number in `least..=most`.
    Number {
        /// Default.
        default: Option<f64>,
        /// Smallest allowed.
        least: f64,
        /// Largest allowed.
        most: f64,
    },
    /// A string; the method decides what is allowed.
    Text {
        /// Default.
        default: &'static str,
    },
    /// One of some names.
    Choice {
        /// Default.
        default: &'static str,
        /// All names.
        names: &'static [&'static str],
    },
    /// The path of a text file whose content is part of the method; empty (the default)
    /// means no file.
    File,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// An integer.
    Count(usize),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
}

impl Value {
    /// The value as a number; `None` for a string.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Count(n) => Some(*n as f64),
            Value::Number(x) => Some(*x),
            Value::Text(_) => None,
        }
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Self {
        Self::Count(n)
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Self {
        Self::Number(x)
    }
}

impl FromStr for Value {
    type Err = Infallible;

    /// Parses an integer if possible, else a number; anything else is a string.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let count = text.parse().map(Value::Count);
        let number = || text.parse().map(Value::Number);
        Ok(count.or_else(|_| number()).unwrap_or_else(|_| Value::Text(text.to_owned())))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(n) => write!(f, "{n}"),
            Value::Number(x) => write!(f, "{x}"),
            Value::Text(text) => write!(f, "{text}"),
        }
    }
}

/// An error: a value that a setting does not allow.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{key} = {value} is out of range: allowed is {allowed}")]
pub struct BadParam {
    /// The setting.
    pub key: &'static str,
    /// The given value, as written.
    pub value: String,
    /// The allowed values, in words.
    pub allowed: String,
}

impl Param {
    /// An integer in a range.
    pub const fn count(
        key: &'static str,
        default: usize,
        range: RangeInclusive<usize>,
        summary: &'static str,
    ) -> Self {
        let (least, most) = (*range.start(), *range.end());
        let kind = ParamKind::Count { default: Some(default), least, most };
        Self { key, aliases: &[], summary, kind }
    }

    /// A number in a range.
    pub const fn number(
        key: &'static str,
        default: f64,
        range: RangeInclusive<f64>,
        summary: &'static str,
    ) -> Self {
        let (least, most) = (*range.start(), *range.end());
        let kind = ParamKind::Number { default: Some(default), least, most };
        Self { key, aliases: &[], summary, kind }
    }

    /// A string.
    pub const fn text(key: &'static str, default: &'static str, summary: &'static str) -> Self {
        Self { key, aliases: &[], summary, kind: ParamKind::Text { default } }
    }

    /// One of some names.
    pub const fn choice(
        key: &'static str,
        default: &'static str,
        names: &'static [&'static str],
        summary: &'static str,
    ) -> Self {
        Self { key, aliases: &[], summary, kind: ParamKind::Choice { default, names } }
    }

    /// The path of a text file.
    pub const fn file(key: &'static str, summary: &'static str) -> Self {
        Self { key, aliases: &[], summary, kind: ParamKind::File }
    }

    /// The same setting without a default.
    pub const fn optional(self) -> Self {
        let kind = match self.kind {
            ParamKind::Count { least, most, .. } => ParamKind::Count { default: None, least, most },
            ParamKind::Number { least, most, .. } => {
                ParamKind::Number { default: None, least, most }
            }
            text => text,
        };
        Self { kind, ..self }
    }

    /// The same setting with names that other tools use for it.
    pub const fn or(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// The allowed values, in words.
    pub fn allowed(&self) -> String {
        match self.kind {
            ParamKind::Count { least, most: usize::MAX, .. } => format!("an integer >= {least}"),
            ParamKind::Count { least, most, .. } => format!("an integer from {least} to {most}"),
            ParamKind::Number { least: f64::MIN, most: f64::MAX, .. } => {
                "a finite number".to_owned()
            }
            ParamKind::Number { least, most: f64::MAX, .. } => {
                format!("a finite number >= {least}")
            }
            ParamKind::Number { least, most: f64::INFINITY, .. } => format!("a number >= {least}"),
            ParamKind::Number { least, most, .. } if least == f64::MIN_POSITIVE => {
                format!("a number above 0, at most {most}")
            }
            ParamKind::Number { least, most, .. } => format!("a number from {least} to {most}"),
            ParamKind::Text { .. } => "a text".to_owned(),
            ParamKind::Choice { names, .. } => {
                let quoted = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>();
                quoted.join(" or ")
            }
            ParamKind::File => "the path of a text file".to_owned(),
        }
    }

    /// The default, if the setting has one.
    pub fn default(&self) -> Option<Value> {
        match self.kind {
            ParamKind::Count { default, .. } => default.map(Value::Count),
            ParamKind::Number { default, .. } => default.map(Value::Number),
            ParamKind::Text { default } | ParamKind::Choice { default, .. } => {
                Some(Value::Text(default.to_owned()))
            }
            ParamKind::File => Some(Value::Text(String::new())),
        }
    }

    /// Converts a value to the type of this setting: an integer becomes a number if a number is
    /// expected, and any value becomes a string if a string is expected.
    ///
    /// # Errors
    /// If the setting does not allow this value.
    pub fn check(&self, value: &Value) -> Result<Value, BadParam> {
        match (self.kind, value) {
            (ParamKind::Count { least, most, .. }, Value::Count(n))
                if (least..=most).contains(n) =>
            {
                Ok(value.clone())
            }
            (ParamKind::Number { least, most, .. }, Value::Number(x))
                if (least..=most).contains(x) =>
            {
                Ok(value.clone())
            }
            (ParamKind::Number { .. }, Value::Count(n)) => self.check(&Value::Number(*n as f64)),
            (ParamKind::Choice { names, .. }, Value::Text(name)) if names.contains(&&**name) => {
                Ok(value.clone())
            }
            // A string may look like a number, such as the shape of a one-level tree.
            (ParamKind::Text { .. } | ParamKind::File, value) => Ok(Value::Text(value.to_string())),
            (kind, value) => {
                let value = match (kind, value) {
                    // A whole number that is not a `Count` had a decimal point.
                    (ParamKind::Count { .. }, Value::Number(x)) => format!("{x:?}"),
                    _ => value.to_string(),
                };
                let one = match kind {
                    ParamKind::Count { .. } | ParamKind::Number { .. } if value.contains(',') => {
                        "; only axes of experiments, below [sweep], have lists"
                    }
                    _ => "",
                };
                Err(BadParam { key: self.key, value, allowed: self.allowed() + one })
            }
        }
    }

    /// Whether `name` is the key or an alias of this setting.
    pub fn is_called(&self, name: &str) -> bool {
        self.key == name || self.aliases.contains(&name)
    }
}

/// Settings by key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(BTreeMap<String, Value>);

impl Params {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a value, unchecked.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.0.insert(key.to_owned(), value);
        self
    }

    /// The settings of a method that reads `read`. Settings that are not set get their
    /// defaults, and settings that the method does not read are left out.
    ///
    /// # Errors
    /// If a setting has a value that it does not allow.
    pub fn of(&self, read: impl IntoIterator<Item = &'static Param>) -> Result<Self, BadParam> {
        let mut values = BTreeMap::new();
        for param in read {
            let value = match self.0.get(param.key) {
                Some(value) => Some(param.check(value)?),
                None => param.default(),
            };
            values.extend(value.map(|value| (param.key.to_owned(), value)));
        }
        Ok(Self(values))
    }

    /// The settings as in tables: `key=value`, separated by spaces.
    pub fn words(&self) -> String {
        self.joined(" ")
    }

    fn joined(&self, gap: &str) -> String {
        let set = self.iter().map(|(key, value)| format!("{key}={value}"));
        set.collect::<Vec<_>>().join(gap)
    }

    /// The same settings without one.
    #[must_use]
    pub fn without(mut self, param: &Param) -> Self {
        self.0.remove(param.key);
        self
    }

    /// The value of a setting if it is set; `None` if only its default applies.
    pub fn set(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// A setting, or its default.
    pub fn get(&self, param: &Param) -> Option<Value> {
        self.0.get(param.key).cloned().or_else(|| param.default())
    }

    /// A setting that is a number and may be absent.
    pub fn optional_number(&self, param: &Param) -> Option<f64> {
        self.get(param)?.number()
    }

    /// A setting that is a count and has a default.
    pub fn count(&self, param: &Param) -> usize {
        match self.get(param) {
            Some(Value::Count(n)) => n,
            _ => 0,
        }
    }

    /// A setting that is a number and has a default.
    pub fn number(&self, param: &Param) -> f64 {
        self.optional_number(param).unwrap_or(f64::NAN)
    }

    /// A setting that is a string.
    pub fn text(&self, param: &Param) -> String {
        self.get(param).map(|value| value.to_string()).unwrap_or_default()
    }

    /// All values that are set, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.joined(";"))
    }
}
