//! Writes to standard output; a failed write is an error, never a panic. Messages while the
//! program works go to standard error through [`crate::io::terminal`].

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::io::fold::folded;
use crate::io::{shown, terminal};

/// Whether standard output is a terminal.
pub(super) fn on_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether `NO_COLOR` forbids colours (<https://no-color.org>).
pub(super) fn no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Writes text to standard output and flushes it. On a terminal, control characters are
/// replaced; a file or a pipe gets the text unchanged.
///
/// # Errors
/// If standard output is closed or full.
pub(super) fn write(text: &str) -> Result<()> {
    if on_terminal() { write_raw(&shown::lines(text)) } else { write_raw(text) }
}

/// Like [`write`] for text that nobody copies as a whole, such as tables: a terminal gets lines that
/// fit.
pub(super) fn show(text: &str) -> Result<()> {
    if on_terminal() {
        write_raw(&folded(&shown::lines(text), terminal::output_width()))
    } else {
        write_raw(text)
    }
}

/// Like [`write`], but keeps control characters, for text that is already safe and coloured.
pub(super) fn write_raw(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Writes one line of text.
pub(super) fn line(text: impl Display) -> Result<()> {
    write(&format!("{text}\n"))
}

/// Lines of cells with two spaces between them and none at the ends. A column is as wide as its
/// widest cell; `right` says which ones are aligned to the right.
pub(super) fn aligned(rows: &[Vec<String>], right: impl Fn(usize) -> bool) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths = (0..columns).map(width).collect::<Vec<_>>();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| match right(column) {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A number with `digits` decimals; a dash for `None`.
pub(super) fn shown(number: Option<f64>, digits: usize) -> String {
    number.map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
}

/// Writes one JSON value on one line.
pub(super) fn write_json(value: &impl Serialize) -> Result<()> {
    line(serde_json::to_string(value).context("cannot write JSON")?)
}

/// Whether an error only means that the reader of standard output closed the pipe, as `head`
/// does. This ends the command without a failure.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
