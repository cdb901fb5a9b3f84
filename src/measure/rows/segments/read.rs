//! Reads the rows of a segment, a batch at a time.

use std::fmt::Display;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::SchemaDescriptor;

use super::super::ahead::{RowQueue, read_ahead};
use super::super::file::RawRow;
use super::super::typed::{CellAccess, TypedCells, TypedColumn};
use super::NANOSECONDS;
use crate::io::input::{caught, open_file};

/// The columns that say which generation a row is of.
const PLACE: [&str; 3] = ["cell", "prompt", "repeat"];

/// Calls `see` with every row of a segment, in order.
///
/// # Errors
/// Names the file that cannot be read, is damaged or lacks a column; rows before the damage may
/// have been seen. Returns the first error of `see`.
pub(crate) fn each_packed<R: RawRow>(file: &Path, see: impl FnMut(R) -> Result<()>) -> Result<()> {
    each_of(file, |_| true, 0..usize::MAX, see)
}

/// Calls `see` with every row of a segment, in which all but cell, prompt and repeat is left out.
///
/// # Errors
/// As [`each_packed`].
pub(crate) fn each_packed_place<R: RawRow>(
    file: &Path,
    see: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    each_of(file, |name| PLACE.contains(&name), 0..usize::MAX, see)
}

/// The first row of a segment, and the number of its rows; `None` if it has none.
///
/// # Errors
/// As [`each_packed`].
pub(crate) fn first_packed<R: RawRow>(file: &Path) -> Result<Option<(R, usize)>> {
    let rows = apart(file, |reader, name| {
        let rows = reader.metadata().file_metadata().num_rows();
        usize::try_from(rows).map_err(|_| damaged(name, "it has no number of rows"))
    })?;
    let mut first = None;
    each_of(
        file,
        |_| true,
        0..1,
        |row: R| {
            first.get_or_insert(row);
            Ok(())
        },
    )?;
    Ok(first.map(|row| (row, rows)))
}

/// Calls `see` with the rows of a damaged segment that can still be read: those of row groups
/// without damage.
///
/// # Errors
/// Returns the first error of `see`.
pub(crate) fn salvage<R: RawRow>(file: &Path, mut see: impl FnMut(R) -> Result<()>) -> Result<()> {
    let groups = apart(file, |reader, _| Ok(reader.num_row_groups())).unwrap_or(0);
    for group in 0..groups {
        let mut rows = Vec::new();
        let read = each_of(
            file,
            |_| true,
            group..group + 1,
            |row: R| {
                rows.push(row);
                Ok(())
            },
        );
        if read.is_ok() {
            for one in rows {
                see(one)?;
            }
        }
    }
    Ok(())
}

/// Calls `see` with the rows of some row groups, of which the columns are read that are wanted.
fn each_of<R: RawRow>(
    file: &Path,
    wanted: impl Fn(&str) -> bool + Sync,
    groups: Range<usize>,
    see: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    let read = |rows: &mut RowQueue<'_, R>| {
        apart(file, |reader, name| {
            let columns = R::typed().iter().filter(|column| wanted(column.name));
            let schema = reader.metadata().file_metadata().schema_descr();
            let known = |column: &&TypedColumn<R>| {
                let found = || schema.columns().iter().any(|known| known.name() == column.name);
                !R::LATER.contains(&column.name) || found()
            };
            let columns =
                columns.filter(known).map(|column| Ok((place(schema, column, name)?, column)));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            for group in groups.start..groups.end.min(reader.num_row_groups()) {
                let group = reader.get_row_group(group).map_err(|error| damaged(name, error))?;
                each_batch(&*group, &columns, rows).map_err(|error| damaged(name, error))?;
            }
            Ok(())
        })
    };
    read_ahead(R::batch(), read, see)
}

/// Reads something from a file in a thread of its own, which may panic.
fn apart<T: Send>(
    file: &Path,
    read: impl FnOnce(&SerializedFileReader<File>, &str) -> Result<T> + Send,
) -> Result<T> {
    let opened = open_file(file).with_context(|| format!("cannot read {}", file.display()))?;
    let name = &*file.file_name().unwrap_or_default().to_string_lossy();
    let opened = || -> Result<T> {
        let reader = SerializedFileReader::new(opened).map_err(|error| damaged(name, error))?;
        read(&reader, name)
    };
    caught(opened).unwrap_or_else(|| Err(anyhow!("{name} is damaged")))
}

/// The sentence for a damaged file, in one line.
fn damaged(name: &str, error: impl Display) -> anyhow::Error {
    let text = format!("{error:#}");
    let text = text.strip_prefix("Parquet error: ").unwrap_or(&text);
    anyhow!("{name} is damaged: {}", text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The place of a column in a file.
fn place<R>(schema: &SchemaDescriptor, column: &TypedColumn<R>, name: &str) -> Result<usize> {
    use parquet::basic::Type::{BOOLEAN, BYTE_ARRAY, DOUBLE, INT64};
    let own =
        |found: &parquet::schema::types::ColumnDescPtr| *found.path().parts() == [column.name];
    let Some(at) = schema.columns().iter().position(own) else {
        bail!("{name} has no column \"{}\"", column.name);
    };
    let kind = match column.cells {
        TypedCells::Flag(_) => BOOLEAN,
        TypedCells::Whole(_) | TypedCells::Time(_) => INT64,
        TypedCells::Number(_) => DOUBLE,
        TypedCells::Text(_) => BYTE_ARRAY,
    };
    let found = &schema.columns()[at];
    let flat = found.max_rep_level() == 0 && found.max_def_level() <= 1;
    // Version 0.1 wrote times as other numbers.
    let earlier = matches!(column.cells, TypedCells::Time(_)) && found.physical_type() == DOUBLE;
    if (found.physical_type() != kind && !earlier) || !flat {
        bail!("{name} has other values than {kind} in column \"{}\"", column.name);
    }
    Ok(at)
}

/// Hands over the rows of a row group, until nobody waits for them.
fn each_batch<R: RawRow>(
    group: &dyn RowGroupReader,
    columns: &[(usize, &TypedColumn<R>)],
    to: &mut RowQueue<'_, R>,
) -> Result<()> {
    let readers = columns.iter().map(|(at, _)| group.get_column_reader(*at));
    let mut readers = readers.collect::<Result<Vec<_>, _>>()?;
    let mut left = usize::try_from(group.metadata().num_rows())?;
    while left > 0 {
        let mut rows = vec![R::default(); left.min(R::batch())];
        left -= rows.len();
        for (reader, (_, column)) in readers.iter_mut().zip(columns) {
            let filled = match (reader, &column.cells) {
                (ColumnReader::BoolColumnReader(reader), TypedCells::Flag(cells)) => {
                    fill(reader, cells, &mut rows)
                }
                (ColumnReader::Int64ColumnReader(reader), TypedCells::Whole(cells)) => {
                    fill(reader, cells, &mut rows)
                }
                (ColumnReader::Int64ColumnReader(reader), TypedCells::Time(cells)) => {
                    let microseconds = |time: i64| time as f64 / NANOSECONDS;
                    fill_with(reader, cells, microseconds, &mut rows)
                }
                (
                    ColumnReader::DoubleColumnReader(reader),
                    TypedCells::Number(cells) | TypedCells::Time(cells),
                ) => fill(reader, cells, &mut rows),
                (ColumnReader::ByteArrayColumnReader(reader), TypedCells::Text(cells)) => {
                    fill(reader, cells, &mut rows)
                }
                _ => Err(anyhow!("it has other values")),
            };
            filled.with_context(|| format!("column \"{}\"", column.name))?;
        }
        if !to.rows(rows) {
            break;
        }
    }
    Ok(())
}

/// Gives each row its value of a column.
fn fill<R, T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    cells: &CellAccess<R, T::T>,
    rows: &mut [R],
) -> Result<()> {
    fill_with(reader, cells, |value| value, rows)
}

/// Gives each row what its value of a column stands for.
fn fill_with<R, T: DataType, V>(
    reader: &mut ColumnReaderImpl<T>,
    cells: &CellAccess<R, V>,
    meaning: impl Fn(T::T) -> V,
    rows: &mut [R],
) -> Result<()> {
    let (mut values, mut levels) = (Vec::with_capacity(rows.len()), Vec::new());
    let (read, ..) = reader.read_records(rows.len(), Some(&mut levels), None, &mut values)?;
    if read != rows.len() {
        bail!("it has fewer rows than are listed");
    }
    let mut values = values.into_iter();
    for (at, row) in rows.iter_mut().enumerate() {
        // Columns whose cells cannot be empty have no levels.
        let known = levels.get(at).is_none_or(|level| *level > 0);
        let value = known.then(|| values.next()).flatten();
        if !(cells.set)(row, value.map(&meaning)) {
            bail!("a value is missing or too large");
        }
    }
    Ok(())
}
