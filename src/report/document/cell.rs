//! The cells of tables: a text and, for numbers, the values behind it.

use std::fmt;

/// A cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct DocCell {
    /// What is shown, in every form of the report.
    text: String,
    /// The number behind the text, in the unit that is shown, if there is one.
    value: Option<f64>,
    /// Both ends of its interval.
    ends: Option<(f64, f64)>,
    tone: Tone,
}

/// Whether a cell says something good or bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Tone {
    Plain,
    Good,
    Bad,
}

/// What stands for a missing number.
const MISSING: &str = "–";

impl DocCell {
    /// A number with a fixed number of decimals; a dash for `None`.
    pub(in crate::report) fn number(value: Option<f64>, decimals: usize) -> Self {
        let text = value.map_or_else(|| MISSING.to_owned(), |x| format!("{x:.decimals$}"));
        Self { value, ..Self::from(text) }
    }

    /// `value [lo, hi]`, or only the value if there is no interval.
    pub(in crate::report) fn with_interval(
        value: Option<f64>,
        ends: Option<(f64, f64)>,
        decimals: usize,
    ) -> Self {
        let mut cell = Self::number(value, decimals);
        if let Some((lo, hi)) = ends {
            cell.text += &format!(" [{lo:.decimals$}, {hi:.decimals$}]");
            cell.ends = ends;
        }
        cell
    }

    /// A share in percent.
    pub(in crate::report) fn percent(share: f64, decimals: usize) -> Self {
        let value = 100.0 * share;
        Self { value: Some(value), ..Self::from(format!("{value:.decimals$} %")) }
    }

    /// A difference in percent, with its sign.
    pub(in crate::report) fn difference(share: f64) -> Self {
        let value = 100.0 * share;
        Self { value: Some(value), ..Self::from(format!("{value:+.1} %")) }
    }

    /// A number that is shown as this text.
    pub(in crate::report) fn shown_as(text: String, value: Option<f64>) -> Self {
        Self { value, ..Self::from(text) }
    }

    /// The same cell, which says something good or bad.
    pub(in crate::report) fn in_tone(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// The number behind the text.
    pub(in crate::report) fn value(&self) -> Option<f64> {
        self.value
    }

    /// Both ends of its interval.
    pub(in crate::report) fn ends(&self) -> Option<(f64, f64)> {
        self.ends
    }

    /// Whether it says something good or bad.
    pub(in crate::report) fn tone(&self) -> Tone {
        self.tone
    }
}

impl fmt::Display for DocCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<String> for DocCell {
    fn from(text: String) -> Self {
        Self { text, value: None, ends: None, tone: Tone::Plain }
    }
}

impl From<&str> for DocCell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<usize> for DocCell {
    fn from(count: usize) -> Self {
        Self { value: Some(count as f64), ..Self::from(count.to_string()) }
    }
}
