//! Writes the rows of several folders in the order of their blocks. What is held in memory
//! grows with the number of blocks, not of rows: the rows go through a file, in which each
//! block's place is known.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result};

use super::super::blocks::Places;
use super::super::cell::Plan;
use super::super::pack::pack;
use super::agree::TakenBlock;
use super::part::RunPart;
use crate::io::output::{Replacement, cannot_write, write_whole};
use crate::measure::rows::{
    BlockRow, DivergenceRow, FailureRow, GenerationRow, PlacedRow, PositionRow, RawRow, RoundRow,
    RowWriter, TextRow, TraceRow, each_row, text_of,
};

/// Where the rows of the blocks pass through.
const SPILL: &str = ".rows";

/// Writes the raw files of the merged folder: of every block the rows of the part that stands
/// for it, and its row in `blocks`. Files that are longer than `pack_above` bytes are packed at
/// the end of a block, if they hold rounds or positions.
pub(super) fn write_rows(
    folder: &Path,
    plan: &Plan,
    parts: &[RunPart],
    taken: &BTreeMap<usize, TakenBlock<'_>>,
    blocks: &[BlockRow],
    pack_above: u64,
) -> Result<()> {
    let sorter = RowSorter { folder, places: Places::new(plan), parts, taken };
    sorter.file::<RoundRow>(pack_above)?;
    sorter.file::<PositionRow>(pack_above)?;
    sorter.file::<TextRow>(u64::MAX)?;
    sorter.file::<TraceRow>(u64::MAX)?;
    sorter.file::<FailureRow>(u64::MAX)?;
    sorter.file::<DivergenceRow>(u64::MAX)?;
    sorter.file::<GenerationRow>(u64::MAX)?;
    write_whole(&folder.join(BlockRow::FILE), &text_of(blocks, true)?)
}

/// Reads the parts and writes the folder.
struct RowSorter<'a> {
    folder: &'a Path,
    places: Places<'a>,
    parts: &'a [RunPart],
    taken: &'a BTreeMap<usize, TakenBlock<'a>>,
}

/// A piece of the spill: where it begins, and its length.
type SpilledRows = (u64, u64);

impl RowSorter<'_> {
    /// Writes one file, if any block has rows there or every run has it. It is packed when it is
    /// longer than `most` bytes.
    fn file<R: PlacedRow>(&self, most: u64) -> Result<()> {
        let path = self.folder.join(SPILL);
        let cannot = || cannot_write(&path);
        let spill = File::options().read(true).write(true).create_new(true).open(&path);
        let mut spill = spill.with_context(cannot)?;
        let pieces = self.spill::<R>(&mut spill)?;
        if R::NEEDED || !pieces.is_empty() {
            let file = self.folder.join(R::FILE);
            let mut blocks = pieces.into_values();
            while Self::text::<R>(&file, &mut spill, &mut blocks, most)? {
                pack::<R>(self.folder)?;
            }
        }
        drop(spill);
        fs::remove_file(&path).with_context(cannot)
    }

    /// Writes a file with the pieces of blocks until it is to be packed. Returns whether it is.
    fn text<R: PlacedRow>(
        file: &Path,
        spill: &mut File,
        blocks: &mut impl Iterator<Item = Vec<SpilledRows>>,
        most: u64,
    ) -> Result<bool> {
        let cannot = || cannot_write(file);
        let header = text_of::<R>(&[], true)?;
        let mut out = Replacement::begin(file)?;
        out.write_all(&header).with_context(cannot)?;
        let mut written = header.len() as u64;
        for pieces in blocks {
            for (from, length) in pieces {
                spill.seek(SeekFrom::Start(from)).with_context(cannot)?;
                let copied = io::copy(&mut Read::by_ref(spill).take(length), &mut out);
                written += copied.with_context(cannot)?;
            }
            if written > most {
                out.commit()?;
                return Ok(true);
            }
        }
        out.commit()?;
        Ok(false)
    }

    /// Writes all rows that count to the spill. Returns the pieces of each block.
    fn spill<R: PlacedRow>(&self, spill: &mut File) -> Result<BTreeMap<usize, Vec<SpilledRows>>> {
        let (mut pieces, mut end) = (BTreeMap::<usize, Vec<SpilledRows>>::new(), 0);
        let mut put = |open: Option<(usize, RowWriter<Vec<u8>>)>| -> Result<()> {
            let Some((block, rows)) = open else { return Ok(()) };
            let bytes = rows.end()?;
            spill.write_all(&bytes).with_context(|| cannot_write(&self.folder.join(SPILL)))?;
            let length = bytes.len() as u64;
            pieces.entry(block).or_default().push((end, length));
            end += length;
            Ok(())
        };
        for (number, part) in self.parts.iter().enumerate() {
            // A block's rows follow each other in its part.
            let mut open: Option<(usize, RowWriter<Vec<u8>>)> = None;
            each_row(&part.path, |row: R| {
                let (cell, prompt, repeat) = row.place();
                let block = self.places.block(cell, prompt, repeat);
                let own = |block: &usize| self.taken.get(block).is_some_and(|s| s.part == number);
                let Some(block) = block.filter(own).filter(|_| !row.is_superseded()) else {
                    return Ok(());
                };
                if open.as_ref().is_none_or(|(of, _)| *of != block) {
                    put(open.take())?;
                    open = Some((block, RowWriter::new::<R>(Vec::new())));
                }
                open.as_mut().map_or(Ok(()), |(_, rows)| rows.row(&row))
            })?;
            put(open)?;
        }
        Ok(pieces)
    }
}
