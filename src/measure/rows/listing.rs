//! The row of `blocks.csv` that lists a block once its rows are written.

use anyhow::Result;

use super::block::BlockRows;
use super::digest::{BlockDigest, COUNTED, digest};
use super::records::BlockRow;
use super::text::text_of;
use crate::measure::machine::Disturbance;

impl BlockRow {
    /// The row of `blocks.csv` for a block's rows: their counts and digests.
    pub(crate) fn listing(rows: &BlockRows) -> Result<Self> {
        let found = BlockDigest::of(rows)?;
        let [rounds, positions, texts, failures, divergences, generations, _] = found.counts;
        let digests = found.digests().join("-");
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

    /// The number of rows that the block has in each of the first of [`super::BLOCK_FILES`].
    pub(crate) fn counts(&self) -> [usize; COUNTED] {
        [self.rounds, self.positions, self.texts, self.failures, self.divergences, self.generations]
    }

    /// What the block lost, as shares of its wall time.
    pub(crate) fn disturbance(&self) -> Disturbance {
        Disturbance {
            waiting: self.waiting_share,
            others: self.others_share,
            stolen: self.stolen_share,
            throttled: self.throttled_share.unwrap_or(0.0),
            stopped: self.stopped_share.unwrap_or(0.0),
        }
    }

    /// The same row with a digest of itself. The digest ignores `superseded`, so it stays
    /// valid when the row is superseded.
    pub(crate) fn sealed(self) -> Result<Self> {
        let open = Self { seal: String::new(), superseded: false, ..self.clone() };
        Ok(Self { seal: digest(&text_of(&[open], false)?), ..self })
    }

    /// Whether the row still matches its own digest.
    pub(crate) fn is_sealed(&self) -> Result<bool> {
        Ok(self.clone().sealed()?.seal == self.seal)
    }

    /// Whether the row matches its own digest, and the block's rows match its counts and
    /// digests.
    pub(crate) fn fits(&self, found: &BlockDigest) -> Result<bool> {
        let same =
            self.counts() == found.counts[..COUNTED] && self.digests == found.digests().join("-");
        Ok(same && self.is_sealed()?)
    }
}
