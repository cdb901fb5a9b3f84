//! Drops from the raw files of a folder what belongs to blocks that do not count.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use super::blocks::Places;
use super::pack::write_segment;
use crate::io::output::{Replacement, cannot_write};
use crate::measure::rows::{
    BlockRow, DivergenceRow, FailureRow, GenerationRow, PlacedRow, PositionRow, RawRow, RoundRow,
    RowWriter, TextRow, TraceRow, each_packed, each_packed_place, each_unpacked_row, segments,
};

/// Keeps the rows of the `kept` blocks. Of the others, the generations, failures and
/// rows of `blocks.csv` stay, marked as superseded. `blocks.csv` is written first: a
/// crash after that leaves rows of unlisted blocks, which the next repair sets aside.
/// Each file is replaced whole, and doing this twice changes nothing. Returns the rows of
/// `blocks.csv`.
pub(super) fn keep(
    folder: &Path,
    places: &Places<'_>,
    kept: &BTreeSet<usize>,
) -> Result<Vec<BlockRow>> {
    let mut blocks = Vec::new();
    rewrite(folder, |mut row: BlockRow| {
        row.superseded |= !kept.contains(&row.block);
        blocks.push(row.clone());
        Some(row)
    })?;
    let counts = KeptBlocks { places, kept };
    // The text comes first: after a crash, it would no longer begin with the rows of a changed
    // segment.
    rewrite(folder, |row: RoundRow| counts.has(&row).then_some(row))?;
    counts.prune::<RoundRow>(folder)?;
    rewrite(folder, |row: PositionRow| counts.has(&row).then_some(row))?;
    counts.prune::<PositionRow>(folder)?;
    rewrite(folder, |row: TextRow| counts.has(&row).then_some(row))?;
    rewrite(folder, |row: TraceRow| counts.has(&row).then_some(row))?;
    rewrite(folder, |row: DivergenceRow| counts.has(&row).then_some(row))?;
    rewrite(folder, |row: FailureRow| {
        Some(FailureRow { superseded: row.superseded || !counts.has(&row), ..row })
    })?;
    rewrite(folder, |row: GenerationRow| {
        Some(GenerationRow { superseded: row.superseded || !counts.has(&row), ..row })
    })?;
    Ok(blocks)
}

/// The blocks that count.
struct KeptBlocks<'a> {
    places: &'a Places<'a>,
    kept: &'a BTreeSet<usize>,
}

impl KeptBlocks<'_> {
    fn has(&self, row: &impl PlacedRow) -> bool {
        let (cell, prompt, repeat) = row.place();
        self.places.block(cell, prompt, repeat).is_some_and(|block| self.kept.contains(&block))
    }

    /// Drops all other rows from the segments of a file. Most segments have none.
    fn prune<R: PlacedRow>(&self, folder: &Path) -> Result<()> {
        for segment in segments::<R>(folder)? {
            let mut whole = true;
            each_packed_place(&segment, |row: R| {
                whole &= self.has(&row);
                Ok(())
            })?;
            if !whole {
                write_segment(&segment, |out| {
                    each_packed(&segment, |row: R| match self.has(&row) {
                        true => out.row(row).with_context(|| cannot_write(&segment)),
                        false => Ok(()),
                    })
                })?;
            }
        }
        Ok(())
    }
}

/// Replaces every row of a file of text, if there is one, by what `change` makes of it.
fn rewrite<R: RawRow>(folder: &Path, mut change: impl FnMut(R) -> Option<R>) -> Result<()> {
    let file = folder.join(R::FILE);
    if !file.exists() {
        return Ok(());
    }
    let cannot = || cannot_write(&file);
    let mut new = RowWriter::new::<R>(Replacement::begin(&file)?);
    new.header::<R>().with_context(cannot)?;
    each_unpacked_row(folder, |row| {
        change(row).map_or(Ok(()), |row| new.row(&row).with_context(cannot))
    })?;
    new.end().with_context(cannot)?.commit()
}
