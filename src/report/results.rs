//! What a run left behind, as typed data.

use std::collections::BTreeMap;

use crate::experiment::{Cell, MOST_DISTURBED, Manifest, Plan, Session};
use crate::rows::{BlockRow, DivergenceRow, FailureRow, PositionRow};
use crate::statistics::Sample;

/// What a run left behind, reduced to what counts: rows of blocks that are
/// superseded, unfinished or damaged are gone.
#[derive(Debug, Clone)]
pub struct Results {
    /// What was decided before the run.
    pub plan: Plan,
    /// Where and with what it was run.
    pub manifest: Manifest,
    /// The blocks that count, in the order of the plan.
    pub blocks: Vec<BlockRow>,
    /// Finished generations by cell id, in the order of their blocks.
    pub samples: BTreeMap<String, Vec<Sample>>,
    /// Generations that failed.
    pub failures: Vec<FailureRow>,
    /// Texts that left plain decoding's and should not have.
    pub divergences: Vec<DivergenceRow>,
    /// Drafted tokens of the finished generations, if the run was traced.
    pub positions: Vec<PositionRow>,
    /// What was left out while reading, as sentences.
    pub notes: Vec<String>,
    /// The session whose times count, with those that are comparable.
    pub(super) session: usize,
    /// Cells that were run twice and differ from themselves.
    pub(super) differing: usize,
}

impl Results {
    /// The samples of a cell; empty if it has none.
    pub fn samples(&self, cell: &str) -> &[Sample] {
        self.samples.get(cell).map_or(&[], Vec::as_slice)
    }

    /// The samples of the baseline with the sampling setting of `cell`.
    pub fn baseline(&self, cell: &Cell) -> &[Sample] {
        self.plan.baseline_of(cell).map_or(&[], |baseline| self.samples(&baseline.id))
    }

    /// The session with which all times that count are comparable.
    pub fn session(&self) -> &Session {
        &self.manifest.sessions[self.session]
    }

    /// The number of that session.
    pub(super) fn group(&self) -> usize {
        self.session
    }

    /// The share of the blocks that were disturbed and stayed so.
    pub fn disturbed_share(&self) -> f64 {
        disturbed_share(&self.blocks)
    }

    /// Whether too many blocks were disturbed for any verdict.
    pub fn is_disturbed(&self) -> bool {
        self.disturbed_share() > MOST_DISTURBED
    }

    /// How many cells that were run twice differ from themselves.
    pub(super) fn differing(&self) -> usize {
        self.differing
    }

    /// Whether times allow no verdict: blocks were disturbed, or cells differ from
    /// themselves.
    pub(super) fn withholds(&self) -> bool {
        self.is_disturbed() || self.differing > 0
    }

    /// A verdict on times, unless times allow none.
    pub(super) fn verdict<'v>(&self, verdict: &'v str) -> &'v str {
        if self.withholds() { "withheld: disturbed" } else { verdict }
    }
}

/// The share of blocks that were disturbed and stayed so.
pub(super) fn disturbed_share(blocks: &[BlockRow]) -> f64 {
    blocks.iter().filter(|block| block.disturbed).count() as f64 / blocks.len().max(1) as f64
}
