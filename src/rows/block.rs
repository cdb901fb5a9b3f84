//! The rows of one block, and the row that records it once they are written.

use anyhow::Result;
use sha2::{Digest, Sha256};

use super::records::{
    BlockRow, DivergenceRow, FailureRow, GenerationRow, PositionRow, RoundRow, TextRow,
};
use super::text::{csv_bytes, text_lines};
use crate::model::hex;

/// Everything one block adds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct BlockRows {
    /// To `rounds.csv`.
    pub(crate) rounds: Vec<RoundRow>,
    /// To `positions.csv`.
    pub(crate) positions: Vec<PositionRow>,
    /// To `generations.jsonl`.
    pub(crate) texts: Vec<TextRow>,
    /// To `failures.csv`.
    pub(crate) failures: Vec<FailureRow>,
    /// To `divergences.csv`.
    pub(crate) divergences: Vec<DivergenceRow>,
    /// To `generations.csv`.
    pub(crate) generations: Vec<GenerationRow>,
}

/// Hexadecimal digits of a digest that a block's row keeps of each file: enough
/// to notice damage.
const DIGITS: usize = 8;

impl BlockRows {
    /// The files that the rows go to, in the order in which they are written,
    /// with the rows as they stand there.
    ///
    /// # Errors
    /// If a row cannot be written as text.
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

    /// How many rows go to each of [`Self::files`].
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

    /// The beginning of the SHA-256 of the rows in each of [`Self::files`].
    ///
    /// # Errors
    /// If a row cannot be written as text.
    pub(crate) fn digests(&self) -> Result<String> {
        Ok(self.files()?.map(|(_, bytes)| digest(&bytes)).join("-"))
    }
}

/// The beginning of the SHA-256 of some bytes.
fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))[..DIGITS].to_owned()
}

impl BlockRow {
    /// What is listed of a block's rows.
    ///
    /// # Errors
    /// If a row cannot be written as text.
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

    /// How many rows the block has in each of [`BlockRows::files`].
    pub(crate) fn counts(&self) -> [usize; 6] {
        [self.rounds, self.positions, self.texts, self.failures, self.divergences, self.generations]
    }

    /// The same row with a digest of itself, which outlives being superseded.
    ///
    /// # Errors
    /// If the row cannot be written as text.
    pub(crate) fn sealed(self) -> Result<Self> {
        let open = Self { seal: String::new(), superseded: false, ..self.clone() };
        Ok(Self { seal: digest(&csv_bytes(&[open], false)?), ..self })
    }

    /// Whether this is the row that was written.
    ///
    /// # Errors
    /// If the row cannot be written as text.
    pub(crate) fn is_sealed(&self) -> Result<bool> {
        Ok(self.clone().sealed()?.seal == self.seal)
    }

    /// Whether this and its rows are those that were written.
    ///
    /// # Errors
    /// If a row cannot be written as text.
    pub(crate) fn fits(&self, rows: &BlockRows) -> Result<bool> {
        let same = self.counts() == rows.counts() && self.digests == rows.digests()?;
        Ok(same && self.is_sealed()?)
    }
}
