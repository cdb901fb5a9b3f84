//! The rows of one block, and the row of `blocks.csv` that lists it once they are
//! written.

use anyhow::Result;
use sha2::{Digest, Sha256};

use super::records::{
    BlockRow, DivergenceRow, FailureRow, GenerationRow, PositionRow, RoundRow, TextRow,
};
use super::text::{csv_bytes, text_lines};
use crate::model::hex;

/// All rows that one block adds to a results folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct BlockRows {
    /// Rows of `rounds.csv`.
    pub(crate) rounds: Vec<RoundRow>,
    /// Rows of `positions.csv`.
    pub(crate) positions: Vec<PositionRow>,
    /// Rows of `generations.jsonl`.
    pub(crate) texts: Vec<TextRow>,
    /// Rows of `failures.csv`.
    pub(crate) failures: Vec<FailureRow>,
    /// Rows of `divergences.csv`.
    pub(crate) divergences: Vec<DivergenceRow>,
    /// Rows of `generations.csv`.
    pub(crate) generations: Vec<GenerationRow>,
}

/// The number of hexadecimal digits that a block's row keeps of each digest: enough to
/// notice damage.
const DIGITS: usize = 8;

impl BlockRows {
    /// The files of the rows in the order in which they are written, each with its rows
    /// as text, without a header.
    ///
    /// # Errors
    /// If a row cannot be serialized.
    pub(crate) fn files(&self) -> Result<[(&'static str, Vec<u8>); 6]> {
        Ok([
            ("rounds.csv", csv_bytes(&self.rounds, false)?),
            ("positions.csv", csv_bytes(&self.positions, false)?),
            ("generations.jsonl", text_lines(&self.texts)?),
            ("failures.csv", csv_bytes(&self.failures, false)?),
            ("divergences.csv", csv_bytes(&self.divergences, false)?),
            ("generations.csv", csv_bytes(&self.generations, false)?),
        ])
    }

    /// The number of rows in each of [`Self::files`].
    pub(crate) fn counts(&self) -> [usize; 6] {
        [
            self.rounds.len(),
            self.positions.len(),
            self.texts.len(),
            self.failures.len(),
            self.divergences.len(),
            self.generations.len(),
        ]
    }

    /// The first digits of the SHA-256 of each of [`Self::files`], joined by `-`.
    ///
    /// # Errors
    /// If a row cannot be serialized.
    pub(crate) fn digests(&self) -> Result<String> {
        Ok(self.files()?.map(|(_, bytes)| digest(&bytes)).join("-"))
    }
}

/// The first [`DIGITS`] digits of the SHA-256 of some bytes.
fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))[..DIGITS].to_owned()
}

impl BlockRow {
    /// The row of `blocks.csv` for a block's rows: their counts and digests.
    ///
    /// # Errors
    /// If a row cannot be serialized.
    pub(crate) fn listing(rows: &BlockRows) -> Result<Self> {
        let [rounds, positions, texts, failures, divergences, generations] = rows.counts();
        let digests = rows.digests()?;
        Ok(Self {
            rounds,
            positions,
            texts,
            failures,
            divergences,
            generations,
            digests,
            ..Self::default()
        })
    }

    /// The number of rows that the block has in each of [`BlockRows::files`].
    pub(crate) fn counts(&self) -> [usize; 6] {
        [self.rounds, self.positions, self.texts, self.failures, self.divergences, self.generations]
    }

    /// The same row with a digest of itself. The digest ignores `superseded`, so it stays
    /// valid when the row is superseded.
    ///
    /// # Errors
    /// If the row cannot be serialized.
    pub(crate) fn sealed(self) -> Result<Self> {
        let open = Self { seal: String::new(), superseded: false, ..self.clone() };
        Ok(Self { seal: digest(&csv_bytes(&[open], false)?), ..self })
    }

    /// Whether the row still matches its own digest.
    ///
    /// # Errors
    /// If the row cannot be serialized.
    pub(crate) fn is_sealed(&self) -> Result<bool> {
        Ok(self.clone().sealed()?.seal == self.seal)
    }

    /// Whether the row matches its own digest, and `rows` match its counts and digests.
    ///
    /// # Errors
    /// If a row cannot be serialized.
    pub(crate) fn fits(&self, rows: &BlockRows) -> Result<bool> {
        let same = self.counts() == rows.counts() && self.digests == rows.digests()?;
        Ok(same && self.is_sealed()?)
    }
}
