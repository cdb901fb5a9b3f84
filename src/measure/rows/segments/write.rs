//! Writes rows as a segment.

use std::io::Write;
use std::mem::take;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parquet::basic::{Compression, Encoding, GzipLevel};
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::super::file::RawRow;
use super::super::typed::{CellAccess, TypedCells};
use super::NANOSECONDS;

/// The rows that are held back to be written and compressed together, if they are short; of
/// lines of JSON, [`LONG_GROUP`] are.
const GROUP: usize = 1 << 16;
const LONG_GROUP: usize = 1 << 12;

/// How hard gzip tries.
const GZIP: u32 = 6;

/// The largest dictionary of a column, in bytes: one that holds each text of a group once.
const DICTIONARY: usize = 1 << 26;

/// Writes rows to a Parquet file, one at a time.
pub(crate) struct SegmentWriter<R, W: Write + Send> {
    out: SerializedFileWriter<W>,
    held: Vec<R>,
    is_empty: bool,
}

impl<R: RawRow, W: Write + Send> SegmentWriter<R, W> {
    /// A writer of rows of type `R`.
    ///
    /// # Errors
    /// If nothing can be written.
    pub(crate) fn new(out: W) -> Result<Self> {
        let schema = Arc::new(parse_message_type(&schema::<R>())?);
        let out = SerializedFileWriter::new(out, schema, Arc::new(properties::<R>()?))?;
        Ok(Self { out, held: Vec::new(), is_empty: true })
    }

    /// Whether it was given no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Writes a row.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn row(&mut self, row: R) -> Result<()> {
        self.is_empty = false;
        self.held.push(row);
        let whole = if R::is_json() { LONG_GROUP } else { GROUP };
        if self.held.len() < whole { Ok(()) } else { self.group() }
    }

    /// Writes what is still held back, and returns where the rows went.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn end(mut self) -> Result<W> {
        if !self.held.is_empty() {
            self.group()?;
        }
        Ok(self.out.into_inner()?)
    }

    fn group(&mut self) -> Result<()> {
        let rows = take(&mut self.held);
        let mut group = self.out.next_row_group()?;
        for column in R::typed() {
            let mut out = group.next_column()?.context("a column is missing")?;
            let optional = column.is_optional();
            match &column.cells {
                TypedCells::Flag(cells) => write::<R, BoolType>(&mut out, cells, optional, &rows),
                TypedCells::Whole(cells) => write::<R, Int64Type>(&mut out, cells, optional, &rows),
                TypedCells::Number(cells) => {
                    write::<R, DoubleType>(&mut out, cells, optional, &rows)
                }
                TypedCells::Time(cells) => write_times(&mut out, column.name, cells, &rows),
                TypedCells::Text(cells) => {
                    write::<R, ByteArrayType>(&mut out, cells, optional, &rows)
                }
            }?;
            out.close()?;
        }
        group.close()?;
        Ok(())
    }
}

/// Writes a column of some rows.
fn write<R, T: DataType>(
    out: &mut SerializedColumnWriter<'_>,
    cells: &CellAccess<R, T::T>,
    optional: bool,
    rows: &[R],
) -> Result<()> {
    let values = rows.iter().filter_map(cells.get).collect::<Vec<_>>();
    let known = || rows.iter().map(|row| i16::from((cells.get)(row).is_some())).collect::<Vec<_>>();
    let known = optional.then(known);
    out.typed::<T>().write_batch(&values, known.as_deref(), None)?;
    Ok(())
}

/// Writes a column of times, which no row lacks.
fn write_times<R>(
    out: &mut SerializedColumnWriter<'_>,
    name: &str,
    cells: &CellAccess<R, f64>,
    rows: &[R],
) -> Result<()> {
    let mut times = Vec::with_capacity(rows.len());
    for time in rows.iter().filter_map(cells.get) {
        let nanoseconds = (time * NANOSECONDS).round() as i64;
        if (nanoseconds as f64 / NANOSECONDS).to_bits() != time.to_bits() {
            bail!("{name} is {time}, which is no whole number of nanoseconds");
        }
        times.push(nanoseconds);
    }
    out.typed::<Int64Type>().write_batch(&times, None, None)?;
    Ok(())
}

fn schema<R: RawRow>() -> String {
    let columns = R::typed().iter().map(|column| {
        let (kind, meaning) = match column.cells {
            TypedCells::Flag(_) => ("boolean", ""),
            TypedCells::Whole(_) => ("int64", ""),
            TypedCells::Number(_) => ("double", ""),
            TypedCells::Time(_) => ("int64", " (DECIMAL(18, 3))"),
            TypedCells::Text(_) => ("binary", " (UTF8)"),
        };
        let needed = if column.is_optional() { "optional" } else { "required" };
        format!("{needed} {kind} {}{meaning}; ", column.name)
    });
    format!("message {} {{ {}}}", R::SEGMENT, columns.collect::<String>())
}

/// Measured numbers seldom repeat, so their bytes are sorted by significance instead of being
/// looked up in a dictionary.
fn properties<R: RawRow>() -> Result<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::GZIP(GzipLevel::try_new(GZIP)?))
        .set_dictionary_page_size_limit(DICTIONARY)
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in R::typed() {
        if matches!(column.cells, TypedCells::Number(_) | TypedCells::Time(_)) {
            properties = properties
                .set_column_dictionary_enabled(column.name.into(), false)
                .set_column_encoding(column.name.into(), Encoding::BYTE_STREAM_SPLIT);
        }
    }
    Ok(properties.build())
}
