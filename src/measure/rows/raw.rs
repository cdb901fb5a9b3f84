//! Reads back the raw rows of a results folder, for `report` and for a run that is
//! resumed. Rows are handed on one by one; what stays here grows with the number of
//! blocks, not of rows.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Error, Result};

use super::ahead::{RowQueue, read_ahead};
use super::digest::{BlockDigest, FileDigests};
use super::each::each_row;
use super::file::{PlacedRow, RawRow};
use super::records::{
    BlockRow, DivergenceRow, FailureRow, GenerationRow, PositionRow, RoundRow, TextRow,
};
use super::traces::TraceRow;

/// Sees the rows of a folder that are not superseded, each with the number of its block:
/// all rounds, then all positions, texts, failures, divergences and generations, each in
/// the order of their file.
pub(crate) trait RowVisitor {
    fn round(&mut self, _block: usize, _row: RoundRow) {}
    fn position(&mut self, _block: usize, _row: PositionRow) {}
    fn text(&mut self, _block: usize, _row: TextRow) {}
    fn failure(&mut self, _block: usize, _row: FailureRow) {}
    fn divergence(&mut self, _block: usize, _row: DivergenceRow) {}
    fn generation(&mut self, _block: usize, _row: GenerationRow) {}
}

/// Needs no row: its reader wants only what [`Raw`] has.
impl RowVisitor for () {}

/// What was found in a folder.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    pub(crate) blocks: Vec<BlockRow>,
    /// What each block of the plan has in the other files, without superseded rows.
    pub(crate) found: BTreeMap<usize, BlockDigest>,
    pub(crate) superseded: usize,
    /// Files whose last line was torn by a crash; it is left out.
    pub(crate) torn: Vec<&'static str>,
    /// A sentence that names the last row that belongs to no block of the plan, if there
    /// is one; all of them are left out.
    pub(crate) stranger: Option<String>,
}

impl Raw {
    /// Reads a folder; `block_of` gives the block of a cell, prompt and repeat. Files
    /// that a run creates only when it has rows for them may be absent.
    pub(crate) fn read(
        folder: &Path,
        block_of: impl Fn(&str, &str, u32) -> Option<usize> + Sync,
        visitor: &mut impl RowVisitor,
    ) -> Result<Self> {
        Self::read_or(folder, block_of, visitor, &mut |_, error| Err(error))
    }

    /// [`Self::read`], in which `failed` gets the name and the error of a file that cannot be read:
    /// if it returns none, the other files are read.
    pub(crate) fn read_or(
        folder: &Path,
        block_of: impl Fn(&str, &str, u32) -> Option<usize> + Sync,
        visitor: &mut impl RowVisitor,
        failed: &mut dyn FnMut(&'static str, Error) -> Result<()>,
    ) -> Result<Self> {
        let mut raw = Self::default();
        let torn = each_row(folder, |block| {
            raw.blocks.push(block);
            Ok(())
        });
        raw.note::<BlockRow>(torn.or_else(|error| failed(BlockRow::FILE, error).map(|()| false))?);
        let mut or =
            |file, read: Result<usize>| read.or_else(|error| failed(file, error).map(|()| 0));
        let of = &block_of;
        let read = raw.file(folder, of, |block, row| visitor.round(block, row));
        or(RoundRow::FILE, read)?;
        let read = raw.file(folder, of, |block, row| visitor.position(block, row));
        or(PositionRow::FILE, read)?;
        let read = raw.file(folder, of, |block, row| visitor.text(block, row));
        or(TextRow::FILE, read)?;
        // What they show is read again once it is known which of them are shown.
        let read = raw.file(folder, of, |_, _: TraceRow| ());
        or(TraceRow::FILE, read)?;
        let read = raw.file(folder, of, |block, row| visitor.failure(block, row));
        or(FailureRow::FILE, read)?;
        let read = raw.file(folder, of, |block, row| visitor.divergence(block, row));
        or(DivergenceRow::FILE, read)?;
        let read = raw.file(folder, of, |block, row| visitor.generation(block, row));
        raw.superseded = or(GenerationRow::FILE, read)?;
        Ok(raw)
    }

    /// Reads a file with rows of blocks. Returns the number of superseded rows.
    fn file<R: PlacedRow>(
        &mut self,
        folder: &Path,
        block_of: &(impl Fn(&str, &str, u32) -> Option<usize> + Sync),
        mut see: impl FnMut(usize, R),
    ) -> Result<usize> {
        let mut digests = FileDigests::default();
        let mut superseded = 0;
        let mut stranger = None;
        let read = |rows: &mut RowQueue<'_, (usize, R)>| {
            each_row(folder, |row: R| {
                if row.is_superseded() {
                    superseded += 1;
                    return Ok(());
                }
                let (cell, prompt, repeat) = row.place();
                match block_of(cell, prompt, repeat) {
                    Some(block) => {
                        digests.add(block, &row)?;
                        rows.row((block, row));
                    }
                    None => {
                        stranger = Some(format!(
                            "{} has a row of cell {cell}, prompt {prompt}, repeat {repeat}, which \
                             plan.toml does not know",
                            R::FILE
                        ));
                    }
                }
                Ok(())
            })
        };
        // Digests take longer than anything that is done with a row.
        let torn = read_ahead(R::batch(), read, |(block, row)| {
            see(block, row);
            Ok(())
        })?;
        self.note::<R>(torn);
        self.stranger = stranger.or(self.stranger.take());
        for (block, rows) in digests.end()? {
            self.found.entry(block).or_default().set::<R>(rows);
        }
        Ok(superseded)
    }

    fn note<R: RawRow>(&mut self, torn: bool) {
        self.torn.extend(torn.then_some(R::FILE));
    }

    /// The rows of `blocks.csv` that are not superseded, by block number.
    pub(crate) fn standing(&self) -> BTreeMap<usize, &BlockRow> {
        let standing = self.blocks.iter().filter(|block| !block.superseded);
        standing.map(|block| (block.block, block)).collect()
    }
}
