//! The headers of raw files.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::io::input::open_file;
use crate::io::output::{Replacement, cannot_write, write_whole};
use crate::measure::rows::{
    BlockRow, DivergenceRow, FailureRow, GenerationRow, PositionRow, RawRow, RoundRow, columns,
    text_of,
};

/// Makes sure that the files have headers. A file that every run has is created if it is
/// missing, even if nothing finishes. A file that ends within its header gets the whole
/// header. A file that begins with a row, because it was emptied while its next rows were
/// being written, gets the header in front. A file that begins in any other way is left
/// to its reader.
pub(super) fn ensure_headers(folder: &Path) -> Result<()> {
    ensure_header::<RoundRow>(folder)?;
    ensure_header::<GenerationRow>(folder)?;
    ensure_header::<BlockRow>(folder)?;
    ensure_header::<PositionRow>(folder)?;
    ensure_header::<FailureRow>(folder)?;
    ensure_header::<DivergenceRow>(folder)
}

fn ensure_header<R: RawRow>(folder: &Path) -> Result<()> {
    let file = &folder.join(R::FILE);
    let cannot = || format!("cannot read {}", file.display());
    let mut first = Vec::new();
    match open_file(file) {
        Ok(opened) => BufReader::new(opened).read_until(b'\n', &mut first).map(drop),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !R::NEEDED => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
    .with_context(cannot)?;
    let header = text_of::<R>(&[], true)?;
    if header.starts_with(&first) {
        return if first.len() < header.len() { write_whole(file, &header) } else { Ok(()) };
    }
    // A row may contain a column's name, for example as a prompt's id, but not most of
    // them: this line is a header with other columns.
    let first = String::from_utf8_lossy(&first);
    let fields = first.split(',').map(|field| field.trim().trim_matches('"'));
    let named = fields.filter(|field| columns::<R>().contains(field)).count();
    if named * 2 > columns::<R>().len() {
        return Ok(());
    }
    let mut old = open_file(file).with_context(cannot)?;
    let mut new = Replacement::begin(file)?;
    let copied = new.write_all(&header).and_then(|()| io::copy(&mut old, &mut new));
    copied.with_context(|| cannot_write(file))?;
    new.commit()
}
