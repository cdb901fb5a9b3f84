//! The rows of prompt files, by the shape of the file.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use serde_json::{Map, Value};

use super::parquet::{PARQUET, parquet_rows};

/// Columns whose values are lists or objects: CSV files have them as JSON.
const LISTS: [&str; 10] = [
    "turns",
    "messages",
    "conversations",
    "conversation",
    "test_list",
    "prompt_token_ids",
    "input_ids",
    "prompt_tokens",
    "tokens",
    "prompt",
];

/// The rows of a file.
#[derive(Debug)]
pub(super) struct FileRows {
    /// What a row is called: a line, an entry or a row.
    pub(super) unit: &'static str,
    /// The rows with their numbers, from 1.
    pub(super) rows: Vec<(usize, Value)>,
}

/// The rows of a file of this kind with these bytes; `text` decodes them.
///
/// # Errors
/// Names the file, and the row that cannot be read.
pub(super) fn rows(
    file: &Path,
    kind: &str,
    bytes: Vec<u8>,
    text: impl FnOnce(Vec<u8>) -> Result<String>,
) -> Result<FileRows> {
    if bytes.starts_with(&PARQUET) {
        return Ok(FileRows { unit: "row", rows: parquet_rows(file, bytes)? });
    }
    if kind == "parquet" {
        bail!("{} is not a Parquet file", file.display());
    }
    let text = text(bytes)?;
    let lines = |expected| Ok(FileRows { unit: "line", rows: lines(file, &text, expected)? });
    match kind {
        "csv" => Ok(FileRows { unit: "row", rows: csv_rows(file, &text)? }),
        "json" if text.trim_start().starts_with('[') => {
            Ok(FileRows { unit: "entry", rows: list(file, &text)? })
        }
        "json" => lines("a list of objects, or one object per line"),
        _ => lines("one object per line"),
    }
}

/// One object per line; `expected` is what a file of this kind holds.
fn lines(file: &Path, text: &str, expected: &str) -> Result<Vec<(usize, Value)>> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let rows = lines.map(|(number, line)| {
        let row = serde_json::from_str(line).map_err(|error| {
            let (place, why) = (file.display(), unreadable(&error));
            anyhow!("{place} line {number}: {why}: expected is {expected}, {{\"prompt\": …}}")
        });
        Ok((number, row?))
    });
    rows.collect()
}

fn list(file: &Path, text: &str) -> Result<Vec<(usize, Value)>> {
    let rows = serde_json::from_str::<Vec<Value>>(text).map_err(|error| {
        anyhow!("{} line {}: {}", file.display(), error.line(), unreadable(&error))
    })?;
    Ok((1..).zip(rows).collect())
}

/// The rows below a header with the names of columns.
fn csv_rows(file: &Path, text: &str) -> Result<Vec<(usize, Value)>> {
    let damaged = |error: csv::Error| match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            anyhow!("{} line {line}: {len} cells below {expected_len} names", file.display())
        }
        _ => anyhow!("{}: {error}", file.display()),
    };
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().map_err(damaged)?.clone();
    let mut rows = Vec::new();
    for (number, record) in (1..).zip(reader.records()) {
        let record = record.map_err(damaged)?;
        let cells =
            names.iter().zip(&record).map(|(name, cell)| (name.to_owned(), value(name, cell)));
        rows.push((number, Value::Object(cells.collect::<Map<_, _>>())));
    }
    Ok(rows)
}

/// The value of a cell: its text, or the list that it is in a column of lists.
fn value(name: &str, cell: &str) -> Value {
    let list = LISTS.contains(&name).then(|| serde_json::from_str::<Vec<Value>>(cell).ok());
    list.flatten().map_or_else(|| cell.into(), Value::Array)
}

/// What is wrong with a text that a parser refuses, and in which column.
fn unreadable(error: &serde_json::Error) -> String {
    let (why, column) = (error.to_string(), error.column());
    // The library's limits, which JSON itself does not have.
    if why.starts_with("number out of range") {
        format!("a number at column {column} is out of range")
    } else if why.starts_with("recursion limit") {
        format!("nested too deeply at column {column}")
    } else {
        format!("not JSON at column {column}")
    }
}
