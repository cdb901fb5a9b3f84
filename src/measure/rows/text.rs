//! Writes rows as the text of their file.

use std::io::{self, Write};

use anyhow::Result;

use super::columns::columns;
use super::file::RawRow;

/// Writes rows of a raw file, one at a time.
#[derive(Debug)]
pub(crate) enum RowWriter<W: Write> {
    Csv(Box<csv::Writer<W>>),
    Json(W),
}

impl<W: Write> RowWriter<W> {
    pub(crate) fn new<R: RawRow>(out: W) -> Self {
        if R::is_json() {
            return Self::Json(out);
        }
        Self::Csv(Box::new(csv::WriterBuilder::new().has_headers(false).from_writer(out)))
    }

    /// Writes the header, which only CSV has.
    pub(crate) fn header<R: RawRow>(&mut self) -> Result<()> {
        match self {
            Self::Csv(csv) => Ok(csv.write_record(columns::<R>())?),
            Self::Json(_) => Ok(()),
        }
    }

    pub(crate) fn row<R: RawRow>(&mut self, row: &R) -> Result<()> {
        match self {
            Self::Csv(csv) => Ok(csv.serialize(row)?),
            Self::Json(out) => Ok(out.write_all((serde_json::to_string(row)? + "\n").as_bytes())?),
        }
    }

    /// Writes what is still held back, and returns where the rows went.
    pub(crate) fn end(self) -> io::Result<W> {
        match self {
            Self::Csv(csv) => csv.into_inner().map_err(|e| io::Error::from(e.error().kind())),
            Self::Json(out) => Ok(out),
        }
    }
}

/// The rows as the text of their file, after their header if `header` is set, even if
/// there are no rows.
pub(crate) fn text_of<R: RawRow>(rows: &[R], header: bool) -> Result<Vec<u8>> {
    let mut writer = RowWriter::new::<R>(Vec::new());
    if header {
        writer.header::<R>()?;
    }
    for row in rows {
        writer.row(row)?;
    }
    Ok(writer.end()?)
}
