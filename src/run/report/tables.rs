//! Writes tables as CSV files, and makes the cells of the report's tables.

use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::Value;

use super::document::{TableCell, Tone};
use super::run::CellView;
use crate::core::registry::class_with_word;
use crate::io::output::write_whole;
use crate::measure::statistics::Interval;

/// The column names of a table, including those of nested structs.
pub fn headings<T: Serialize + Default>() -> Vec<String> {
    fields(&T::default()).map_or_else(|_| Vec::new(), |row| row.into_iter().map(|f| f.0).collect())
}

/// Writes rows as CSV; if there are no rows, writes only the header.
///
/// # Errors
/// If the file cannot be written; the message names it.
pub fn write_csv<'r, T: Serialize + Default + 'r>(
    path: &Path,
    rows: impl IntoIterator<Item = &'r T>,
) -> Result<()> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(headings::<T>())?;
    for row in rows {
        writer.write_record(fields(row)?.into_iter().map(|(_, value)| value))?;
    }
    write_whole(path, &writer.into_inner()?)
}

/// The names and values of a row as written to CSV; absent values are empty.
fn fields<T: Serialize>(row: &T) -> Result<Vec<(String, String)>> {
    let text = |value: Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    };
    match serde_json::to_value(row)? {
        Value::Object(fields) => Ok(fields.into_iter().map(|(k, v)| (k, text(v))).collect()),
        other => bail!("{other} is not a table row"),
    }
}

const MISSING: &str = "–";

/// A number with a fixed number of decimals; a dash for `None`.
pub(super) fn number(value: Option<f64>, decimals: usize) -> TableCell {
    let text = value.map_or_else(|| MISSING.to_owned(), |x| format!("{x:.decimals$}"));
    TableCell::shown_as(text, value)
}

/// Both ends of an interval; `None` twice without one.
pub(super) fn ends(interval: Option<Interval>) -> (Option<f64>, Option<f64>) {
    interval.map(|i| (i.lo, i.hi)).unzip()
}

/// `value [lo, hi]`, or only the value if there is no interval.
pub(super) fn with_interval(
    value: Option<f64>,
    lo: Option<f64>,
    hi: Option<f64>,
    decimals: usize,
) -> TableCell {
    let mut cell = number(value, decimals);
    cell.ends = lo.zip(hi);
    if let Some((lo, hi)) = cell.ends {
        cell.text += &format!(" [{lo:.decimals$}, {hi:.decimals$}]");
    }
    cell
}

impl CellView {
    /// The first columns of a table by series: method, sampling, class.
    pub(super) fn names(&self) -> [TableCell; 3] {
        [&*self.name, &*self.sampling, &*class_with_word(&self.class)].map(TableCell::from)
    }

    /// The same columns of a table by cell, followed by K.
    pub(super) fn line(&self) -> [TableCell; 4] {
        let k = match self.is_baseline() {
            true => number(None, 0),
            false => self.method.num_speculative_tokens.into(),
        };
        let [method, sampling, class] = self.names();
        [method, sampling, class, k]
    }
}

/// One row per cell: its names and what `rest` returns. Cells for which that is `None` are left out.
pub(super) fn lines<'r>(
    cells: impl IntoIterator<Item = &'r CellView>,
    rest: impl Fn(&CellView) -> Option<Vec<TableCell>>,
) -> Vec<Vec<TableCell>> {
    let line = |cell: &CellView| Some(cell.line().into_iter().chain(rest(cell)?).collect());
    cells.into_iter().filter_map(line).collect()
}

/// The heads of the columns of [`CellView::line`], and of those that follow.
pub(super) fn columns<'h>(others: &[&'h str]) -> Vec<&'h str> {
    [&["method", "sampling", "class", "K:"][..], others].concat()
}

/// What a comparison shows.
pub(super) fn verdict_cell(verdict: &str) -> TableCell {
    let tone = match verdict.split(':').next() {
        Some("faster") => Tone::Good,
        Some("slower") => Tone::Bad,
        _ => Tone::Plain,
    };
    TableCell { tone, ..verdict.into() }
}
