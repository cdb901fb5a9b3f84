//! A run as one object: every cell with what belongs to it.

use std::collections::BTreeMap;
use std::ops::Deref;

use super::reached::Reached;
use super::validity::{InvalidTimes, SpeedVerdict, TimesValidity};
use crate::measure::rows::{BlockRow, DivergenceRow, FailureRow, SummaryRow, SurvivalRow};
use crate::measure::statistics::{HeldOutSpeedup, Sample, behind_end_share};
use crate::run::experiment::{Cell, Manifest, Plan, RunSession};

/// A run without the rows of superseded, unfinished and damaged blocks. It is built once, and what a
/// report shows is a function of it.
#[derive(Debug, Clone)]
pub struct Run {
    /// The plan that was frozen before the run.
    pub plan: Plan,
    /// The status of the run, and the machine, build and calibration of every session.
    pub manifest: Manifest,
    /// The blocks that count, in the order of the plan.
    pub blocks: Vec<BlockRow>,
    /// The cells, in the order of the plan.
    pub cells: Vec<CellView>,
    /// Whether the times of the run give verdicts on speed, and why not.
    pub times: TimesValidity,
    /// One sentence per thing that was left out while reading.
    pub notes: Vec<String>,
    /// The index of the session whose times count, and with it those of comparable sessions: the
    /// number of their group.
    pub(super) session: usize,
    /// The number of control cells whose two runs differ by more than chance.
    pub(super) differing: usize,
    /// The places of the cells of each series, in order of increasing K.
    pub(super) series: Vec<Vec<usize>>,
}

/// A cell of a run. It has the fields of its [`Cell`], too.
#[derive(Debug, Clone, Default)]
pub struct CellView {
    /// The cell of the plan.
    pub cell: Cell,
    /// The name of its method, which mentions only what distinguishes it within the run.
    pub name: String,
    /// The same without the first part, if all methods of the run share that: for figures.
    pub(super) short: String,
    /// The name of its sampling setting, shortened like that of the method, or of its beam search.
    pub sampling: String,
    /// Its finished generations, in the order of their blocks.
    pub samples: Vec<Sample>,
    /// For each of them: the group of comparable sessions among whose times its own count; none if
    /// its block was disturbed.
    pub(super) groups: Vec<Option<usize>>,
    /// Its generations that failed.
    pub failures: Vec<FailureRow>,
    /// Completions that differ from plain decoding although they should not.
    pub divergences: Vec<DivergenceRow>,
    /// The drafted tokens that the verifier decided on, if the run was traced.
    pub reached: Reached,
    /// Its row of `summary.csv`.
    pub row: SummaryRow,
    /// Its rows of `survival.csv`.
    pub survival: Vec<SurvivalRow>,
    /// Whether it is faster than plain decoding: on its generations without loops if plain decoding
    /// has too many.
    pub verdict: SpeedVerdict,
    /// Whether it stands for its series.
    pub best: bool,
    /// The speedup that the costs of other prompts predict.
    pub(super) held_out: Option<HeldOutSpeedup>,
    /// The place of the plain decoding with its goal.
    pub(super) baseline: Option<usize>,
    /// The number of its series; none for plain decoding and for second runs of control cells.
    pub series: Option<usize>,
}

impl Deref for CellView {
    type Target = Cell;

    fn deref(&self) -> &Cell {
        &self.cell
    }
}

impl Run {
    /// All series, in the order of the plan.
    pub fn series(&self) -> impl Iterator<Item = Series<'_>> {
        self.series.iter().filter_map(|places| self.series_of(&self.cells[places[0]]))
    }

    /// The series of a cell.
    pub(super) fn series_of(&self, cell: &CellView) -> Option<Series<'_>> {
        let places = &self.series[cell.series?];
        Some(Series { cells: places.iter().map(|&at| &self.cells[at]).collect() })
    }

    /// The cells with a method that drafts, without second runs, series by series.
    pub fn drafted(&self) -> impl Iterator<Item = &CellView> {
        self.series.iter().flatten().map(|&at| &self.cells[at])
    }

    /// Plain decoding with each goal.
    pub fn baselines(&self) -> impl Iterator<Item = &CellView> {
        self.cells.iter().filter(|cell| cell.is_baseline())
    }

    /// The generations of the plain decoding with the goal of a cell.
    pub fn baseline(&self, cell: &CellView) -> &[Sample] {
        cell.baseline.map_or(&[], |at| &self.cells[at].samples)
    }

    /// The generations of all cells.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.cells.iter().flat_map(|cell| &cell.samples)
    }

    /// The category of every prompt that has a generation.
    pub(super) fn categories(&self) -> BTreeMap<&str, &str> {
        self.samples().map(|sample| (&*sample.prompt, &*sample.category)).collect()
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

    /// What [`Self::times`] are.
    pub(super) fn validity(&self) -> TimesValidity {
        let set = (self.plan.clock == "virtual").then_some(InvalidTimes::Set);
        let (disturbed, all) = (self.disturbed_blocks(), self.blocks.len());
        let blocks = TimesValidity::of_blocks(disturbed, all, self.worst_cause());
        let controls = (self.differing > 0).then_some(InvalidTimes::ControlsDiffer(self.differing));
        TimesValidity { reasons: set.into_iter().chain(blocks.reasons).chain(controls).collect() }
    }

    /// Whether too many blocks were disturbed for a verdict. All times are kept then.
    pub fn is_disturbed(&self) -> bool {
        self.times.reasons.iter().any(|reason| matches!(reason, InvalidTimes::Disturbed { .. }))
    }
}

/// The cells with one method and sampling setting, in order of increasing K: a line of a figure.
/// There is at least one.
#[derive(Debug, Clone)]
pub struct Series<'a> {
    /// The cells.
    pub cells: Vec<&'a CellView>,
}

impl<'a> Series<'a> {
    /// Its first cell: its method and sampling setting are those of the series.
    pub fn first(&self) -> &'a CellView {
        self.cells[0]
    }

    /// The cell that stands for the series: the fastest or, if the times give no verdict, that with
    /// the largest K; `None` if no cell was timed.
    pub fn best(&self) -> Option<&'a CellView> {
        self.cells.iter().copied().find(|cell| cell.best)
    }

    /// The cell with the longest draft length among those that have samples.
    pub fn longest(&self) -> Option<&'a CellView> {
        self.cells.iter().rev().copied().find(|cell| !cell.samples.is_empty())
    }
}
