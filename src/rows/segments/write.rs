//! Writes rows as a segment.

use std::io::Write;
use std::mem::take;
use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::basic::{Compression, GzipLevel};
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::super::file::RawRow;
use super::super::typed::{CellAccess, TypedCells};
use super::stem;

/// Rows that are held back, to be written and compressed together.
const GROUP: usize = 1 << 16;

/// How hard gzip tries. Harder makes the files a few percent smaller, and takes longer.
const GZIP: u32 = 1;

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
        let out = SerializedFileWriter::new(out, schema, Arc::new(properties()?))?;
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
        if self.held.len() < GROUP { Ok(()) } else { self.group() }
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

fn schema<R: RawRow>() -> String {
    let columns = R::typed().iter().map(|column| {
        let kind = match column.cells {
            TypedCells::Flag(_) => "boolean",
            TypedCells::Whole(_) => "int64",
            TypedCells::Number(_) => "double",
            TypedCells::Text(_) => "binary",
        };
        let text = if matches!(column.cells, TypedCells::Text(_)) { " (UTF8)" } else { "" };
        let needed = if column.is_optional() { "optional" } else { "required" };
        format!("{needed} {kind} {}{text}; ", column.name)
    });
    format!("message {} {{ {}}}", stem::<R>(), columns.collect::<String>())
}

/// All columns have dictionaries, which the library keeps by the bits of their values: even of
/// the times, which are whole nanoseconds, many in a group are equal.
fn properties() -> Result<WriterProperties> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::GZIP(GzipLevel::try_new(GZIP)?))
        .set_statistics_enabled(EnabledStatistics::Chunk);
    Ok(properties.build())
}
