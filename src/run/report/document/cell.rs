//! The cells of tables: a text and, for numbers, the values behind it.

use std::fmt;

/// A cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::run::report) struct TableCell {
    /// What is shown, in every form of the report.
    pub(in crate::run::report) text: String,
    /// The number behind the text, in the unit that is shown, if there is one.
    pub(in crate::run::report) value: Option<f64>,
    /// Both ends of its interval.
    pub(in crate::run::report) ends: Option<(f64, f64)>,
    pub(in crate::run::report) tone: Tone,
}

/// Whether a cell says something good or bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run::report) enum Tone {
    Plain,
    Good,
    Bad,
}

impl TableCell {
    /// A share in percent.
    pub(in crate::run::report) fn percent(share: f64, decimals: usize) -> Self {
        let value = 100.0 * share;
        Self::shown_as(format!("{value:.decimals$} %"), Some(value))
    }

    /// A difference in percent, with its sign.
    pub(in crate::run::report) fn difference(share: f64) -> Self {
        let value = 100.0 * share;
        Self::shown_as(format!("{value:+.1} %"), Some(value))
    }

    /// A number that is shown as this text.
    pub(in crate::run::report) fn shown_as(text: String, value: Option<f64>) -> Self {
        Self { text, value, ends: None, tone: Tone::Plain }
    }
}

impl fmt::Display for TableCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        Self::shown_as(text, None)
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<usize> for TableCell {
    fn from(count: usize) -> Self {
        Self::shown_as(count.to_string(), Some(count as f64))
    }
}
