//! The data of a run, read from its results folder.

use std::collections::BTreeMap;

use super::reached::Reached;
use super::validity::{InvalidTimes, TimesValidity};
use crate::experiment::{Cell, Manifest, Plan, RunSession};
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

    /// The number of blocks that were disturbed on every attempt.
    pub fn disturbed_blocks(&self) -> usize {
        self.blocks.iter().filter(|block| block.disturbed).count()
    }

    /// What took most time from the most disturbed block, in words.
    pub(super) fn worst_cause(&self) -> &'static str {
        let lost = self.blocks.iter().map(BlockRow::disturbance);
        lost.max_by(|a, b| a.share().total_cmp(&b.share())).unwrap_or_default().cause()
    }

    fn validity_of_blocks(&self) -> TimesValidity {
        TimesValidity::of_blocks(self.disturbed_blocks(), self.blocks.len(), self.worst_cause())
    }

    /// Whether too many blocks were disturbed for a verdict. All times are kept then.
    pub fn is_disturbed(&self) -> bool {
        !self.validity_of_blocks().is_valid()
    }

    /// Whether the times of the run give verdicts on speed, and why not.
    pub fn times(&self) -> TimesValidity {
        let set = (self.plan.clock == "virtual").then_some(InvalidTimes::Set);
        let blocks = self.validity_of_blocks();
        let controls = (self.differing > 0).then_some(InvalidTimes::ControlsDiffer(self.differing));
        TimesValidity { reasons: set.into_iter().chain(blocks.reasons).chain(controls).collect() }
    }
}
