//! The data of a run, read from its results folder.

use std::collections::BTreeMap;

use super::reached::Reached;
use crate::experiment::{Cell, MOST_DISTURBED, Manifest, Plan, RunSession};
use crate::rows::{BlockRow, DivergenceRow, FailureRow};
use crate::statistics::{Sample, behind_end_share};

/// The data of a run, without the rows of superseded, unfinished and damaged blocks.
#[derive(Debug, Clone)]
pub struct Results {
    /// The plan that was frozen before the run.
    pub plan: Plan,
    /// The status of the run, and the machine, build and calibration of every session.
    pub manifest: Manifest,
    /// The blocks that count, in the order of the plan.
    pub blocks: Vec<BlockRow>,
    /// Finished generations by cell id, in the order of their blocks.
    pub samples: BTreeMap<String, Vec<Sample>>,
    /// Generations that failed.
    pub failures: Vec<FailureRow>,
    /// Completions that differ from plain decoding although they should not.
    pub divergences: Vec<DivergenceRow>,
    /// The drafted tokens that verifiers decided on by cell id, if the run was traced.
    pub reached: BTreeMap<String, Reached>,
    /// One sentence per thing that was left out while reading.
    pub notes: Vec<String>,
    /// The index of the session whose times count, and with it those of comparable sessions: the
    /// number of their group.
    pub(super) session: usize,
    /// For each of the samples, by cell id: the group of comparable sessions among whose times
    /// its own count; none if its block was disturbed.
    pub(super) groups: BTreeMap<String, Vec<Option<usize>>>,
    /// The number of control cells whose two runs differ by more than chance.
    pub(super) differing: usize,
}

impl Results {
    /// The samples of the cell with this id; empty if it has none.
    pub fn samples(&self, cell: &str) -> &[Sample] {
        self.samples.get(cell).map_or(&[], Vec::as_slice)
    }

    /// The samples of the baseline that has the sampling setting of `cell`.
    pub fn baseline(&self, cell: &Cell) -> &[Sample] {
        self.plan.baseline_of(cell).map_or(&[], |baseline| self.samples(&baseline.id))
    }

    /// The share of the tokens of some samples behind the end of their text; `None` if the tokens
    /// that end a text are unknown, as before format 3.
    pub(super) fn behind_end_share<'a>(
        &self,
        samples: impl IntoIterator<Item = &'a Sample>,
    ) -> Option<f64> {
        self.plan.target.eos.as_ref().and_then(|_| behind_end_share(samples))
    }

    /// Whether the folder is one part of a run and has all blocks of that part; those of other
    /// parts are in other folders.
    pub(super) fn is_whole_part(&self) -> bool {
        self.manifest.share.is_some() && self.blocks.len() >= self.manifest.blocks.1
    }

    /// The session whose times count; all other times that count are comparable with it.
    pub fn session(&self) -> &RunSession {
        &self.manifest.sessions[self.session]
    }

    /// The share of blocks that were disturbed on every attempt.
    pub fn disturbed_share(&self) -> f64 {
        let disturbed = self.blocks.iter().filter(|block| block.disturbed).count();
        disturbed as f64 / self.blocks.len().max(1) as f64
    }

    /// Whether too many blocks were disturbed for any verdict.
    pub fn is_disturbed(&self) -> bool {
        self.disturbed_share() > MOST_DISTURBED
    }

    /// Whether no verdict on times is given: too many blocks were disturbed, or the two runs
    /// of a control cell differ.
    pub(crate) fn withholds(&self) -> bool {
        self.is_disturbed() || self.differing > 0
    }

    /// The verdict, or a note that it is withheld because the run was disturbed.
    pub(super) fn verdict<'v>(&self, verdict: &'v str) -> &'v str {
        if self.withholds() { "withheld: disturbed" } else { verdict }
    }
}
