//! How many rows a block has in each raw file, and digests of them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::Result;
use sha2::{Digest, Sha256};

use super::block::BlockRows;
use super::file::RawRow;
use super::text::RowWriter;
use crate::model::hex;

/// The files with rows of blocks, in the order of their digests.
pub(crate) const BLOCK_FILES: [&str; FILES] = [
    "rounds.csv",
    "positions.csv",
    "generations.jsonl",
    "failures.csv",
    "divergences.csv",
    "generations.csv",
    "traces.jsonl",
];

/// The number of these files, and of those that every version has written. `blocks.csv` has
/// counts of their rows, and a digest of a later one only if the block has rows there.
const FILES: usize = 7;
pub(super) const COUNTED: usize = 6;

/// The number of bytes that are kept of each digest: enough to notice damage.
const KEPT: usize = 4;

/// The counts and digests of a block's rows, by [`BLOCK_FILES`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BlockDigest {
    pub(crate) counts: [usize; FILES],
    digests: [[u8; KEPT]; FILES],
}

impl Default for BlockDigest {
    /// Those of a block without rows.
    fn default() -> Self {
        Self { counts: [0; FILES], digests: [beginning(Sha256::new()); FILES] }
    }
}

impl BlockDigest {
    /// The counts and digests of some rows.
    pub(crate) fn of(rows: &BlockRows) -> Result<Self> {
        let mut found = Self::default();
        found.add(&rows.rounds)?;
        found.add(&rows.positions)?;
        found.add(&rows.texts)?;
        found.add(&rows.failures)?;
        found.add(&rows.divergences)?;
        found.add(&rows.generations)?;
        found.add(&rows.traces)?;
        Ok(found)
    }

    fn add<R: RawRow>(&mut self, rows: &[R]) -> Result<()> {
        let mut digests = FileDigests::default();
        for row in rows {
            digests.add(0, row)?;
        }
        for (_, rows) in digests.end()? {
            self.set::<R>(rows);
        }
        Ok(())
    }

    /// Sets what the block has in the file of `R`.
    pub(super) fn set<R: RawRow>(&mut self, rows: HashedRows) {
        if let Some(file) = BLOCK_FILES.iter().position(|file| *file == R::FILE) {
            self.counts[file] = rows.count;
            self.digests[file] = beginning(rows.hash);
        }
    }

    /// The digests in hexadecimal, as `blocks.csv` lists them.
    pub(crate) fn digests(&self) -> Vec<String> {
        let listed = (0..FILES).filter(|&file| file < COUNTED || self.counts[file] > 0);
        listed.map(|file| hex(&self.digests[file])).collect()
    }
}

/// The first digits of the SHA-256 of some bytes.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(&beginning(Sha256::new_with_prefix(bytes)))
}

fn beginning(hash: Sha256) -> [u8; KEPT] {
    let whole: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|i| whole[i])
}

/// The rows of a block in one file: how many there are, and the hash of their text.
#[derive(Debug, Clone, Default)]
pub(super) struct HashedRows {
    count: usize,
    hash: Sha256,
}

impl Write for HashedRows {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hash.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The rows of all blocks in one file. The rows of a block may lie anywhere in it; only
/// their order counts.
#[derive(Debug, Default)]
pub(super) struct FileDigests {
    /// The other blocks.
    blocks: BTreeMap<usize, HashedRows>,
    /// The block of the last row, with the count of its rows. Only this one has a writer,
    /// whose buffer is large.
    open: Option<(usize, usize, RowWriter<HashedRows>)>,
}

impl FileDigests {
    pub(super) fn add<R: RawRow>(&mut self, block: usize, row: &R) -> Result<()> {
        if self.open.as_ref().is_none_or(|open| open.0 != block) {
            self.close()?;
            let rows = self.blocks.remove(&block).unwrap_or_default();
            self.open = Some((block, rows.count, RowWriter::new::<R>(rows)));
        }
        self.open.as_mut().map_or(Ok(()), |(_, count, writer)| {
            *count += 1;
            writer.row(row)
        })
    }

    fn close(&mut self) -> Result<()> {
        if let Some((block, count, writer)) = self.open.take() {
            self.blocks.insert(block, HashedRows { count, ..writer.end()? });
        }
        Ok(())
    }

    pub(super) fn end(mut self) -> Result<BTreeMap<usize, HashedRows>> {
        self.close()?;
        Ok(self.blocks)
    }
}
