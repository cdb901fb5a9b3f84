//! Reads a raw file row by row, so that memory does not grow with the file.

use std::io::{self, BufRead};
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail};

use super::ahead::{RowQueue, read_ahead};
use super::columns::columns;
use super::file::RawRow;
use super::lines::{NotUtf8, WholeLines};
use super::segments::{each_packed, first_packed, segments};

/// Calls `see` with every row of a file of the folder, in order: those of its segments, then
/// those of its text. A file that not every run has may be absent. Returns whether the last
/// line was torn by a crash; it is left out.
///
/// # Errors
/// Names the file that is missing, unreadable or damaged. Returns the first error of
/// `see`.
pub(crate) fn each_row<R: RawRow>(
    folder: &Path,
    mut see: impl FnMut(R) -> Result<()>,
) -> Result<bool> {
    for segment in segments::<R>(folder)? {
        each_packed(&segment, &mut see)?;
    }
    each_unpacked_row(folder, see)
}

/// [`each_row`] until `see` returns that it has seen enough.
///
/// # Errors
/// As [`each_row`].
pub(crate) fn each_row_until<R: RawRow>(
    folder: &Path,
    mut see: impl FnMut(R) -> Result<bool>,
) -> Result<()> {
    let mut enough = false;
    let read = each_row(folder, |row| {
        enough = see(row)?;
        // Only an error ends the reading.
        if enough { Err(anyhow!("the other rows are not needed")) } else { Ok(()) }
    });
    if enough { Ok(()) } else { read.map(drop) }
}

/// [`each_row`] of the rows that no segment holds.
///
/// # Errors
/// As [`each_row`].
pub(crate) fn each_unpacked_row<R: RawRow>(
    folder: &Path,
    mut see: impl FnMut(R) -> Result<()>,
) -> Result<bool> {
    let last = segments::<R>(folder)?.pop();
    let mut last = last.map(|segment| first_packed::<R>(&segment)).transpose()?.flatten();
    // After a crash the text may still begin with all rows of the last segment.
    let mut packed = 0;
    each_text_row(folder, |row| {
        if let Some((first, rows)) = last.take()
            && first == row
        {
            packed = rows;
        }
        if packed > 0 {
            packed -= 1;
            return Ok(());
        }
        see(row)
    })
}

/// [`each_row`] of the rows that stand in text.
fn each_text_row<R: RawRow>(folder: &Path, see: impl FnMut(R) -> Result<()>) -> Result<bool> {
    let file = folder.join(R::FILE);
    let lines = match WholeLines::open(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !R::NEEDED => return Ok(false),
        opened => opened.map_err(|error| unreadable(&file, error))?,
    };
    read_ahead(R::batch(), |rows| read_text(&file, lines, rows), see)
}

/// Reads the rows of a text file, until nobody waits for them. Returns whether its last line
/// was torn.
fn read_text<R: RawRow>(
    file: &Path,
    mut lines: WholeLines,
    rows: &mut RowQueue<'_, R>,
) -> Result<bool> {
    let empty = lines.fill_buf().map_err(|error| unreadable(file, error))?.is_empty();
    if !empty && R::is_json() {
        read_lines(file, &mut lines, rows)?;
    } else if !empty {
        read_records(file, &mut lines, rows)?;
    }
    Ok(lines.is_torn())
}

/// The rows of a CSV file, which has the columns of `R` in any order.
fn read_records<R: RawRow>(
    file: &Path,
    lines: &mut WholeLines,
    rows: &mut RowQueue<'_, R>,
) -> Result<()> {
    let damaged = |error: csv::Error| {
        let text = error.to_string();
        match error.into_kind() {
            csv::ErrorKind::Io(error) => unreadable(file, error),
            _ => {
                let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                anyhow!("{} is damaged: {words}", R::FILE)
            }
        }
    };
    let mut reader = csv::Reader::from_reader(lines);
    let header = reader.headers().map_err(damaged)?.clone();
    for column in columns::<R>() {
        if !header.iter().any(|h| h == *column) && !R::LATER.contains(column) {
            bail!("{} has no column \"{column}\"", R::FILE);
        }
    }
    // Looking up every field by its name would take most of the time.
    let in_order = header.iter().eq(columns::<R>().iter().copied());
    let names = (!in_order).then_some(&header);
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(damaged)? {
        if !rows.row(record.deserialize(names).map_err(damaged)?) {
            break;
        }
    }
    Ok(())
}

/// The rows of a file of JSON lines.
fn read_lines<R: RawRow>(
    file: &Path,
    lines: &mut WholeLines,
    rows: &mut RowQueue<'_, R>,
) -> Result<()> {
    let mut text = String::new();
    for number in 1.. {
        text.clear();
        if lines.read_line(&mut text).map_err(|error| unreadable(file, error))? == 0 {
            break;
        }
        let line = text.lines().next().unwrap_or_default();
        let damaged = || format!("{}, line {number} is damaged", file.display());
        if !rows.row(serde_json::from_str(line).with_context(damaged)?) {
            break;
        }
    }
    Ok(())
}

fn unreadable(file: &Path, error: io::Error) -> Error {
    if error.get_ref().is_some_and(|inner| inner.is::<NotUtf8>()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        return anyhow!("{name} is damaged: {NotUtf8}");
    }
    Error::new(error).context(format!("cannot read {}", file.display()))
}
