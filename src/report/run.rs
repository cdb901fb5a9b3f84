//! A run as one object: every cell with what belongs to it.

use std::collections::BTreeMap;
use std::ops::Deref;

use super::accounts::BlockAccount;
use super::best::SeriesContest;
use super::controls::{Control, controls_of};
use super::document::DocCell;
use super::held_out::predictions;
use super::loops::verdict;
use super::reached::Reached;
use super::series::{Series, grouped};
use super::summary::{summary, survival};
use super::tables::number;
use super::validity::{InvalidTimes, SpeedVerdict, TimesValidity};
use crate::experiment::{Cell, Manifest, Plan, RunSession};
use crate::registry::class_with_word;
use crate::rows::{BlockRow, DivergenceRow, FailureRow, SummaryRow, SurvivalRow};
use crate::statistics::{HeldOutSpeedup, Sample, behind_end_share};

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
    /// The cells that ran twice and were timed.
    pub(super) controls: Vec<Control>,
    /// The places of the cells of each series, in order of increasing K.
    series: Vec<Vec<usize>>,
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
    /// The run of a plan of which these blocks are done; `accounts` has what is known of each.
    pub(super) fn of(
        plan: Plan,
        manifest: Manifest,
        blocks: Vec<BlockRow>,
        accounts: Vec<BlockAccount>,
        notes: Vec<String>,
    ) -> Self {
        let (cells, series) = grouped(&plan);
        let times = TimesValidity::of_run(&plan, &blocks, &[]);
        let session = most_common(&manifest.groups(), &blocks);
        let controls = Vec::new();
        let mut run =
            Self { plan, manifest, blocks, cells, times, notes, session, controls, series };
        run.add(accounts);
        run.controls = controls_of(&run);
        run.times = TimesValidity::of_run(&run.plan, &run.blocks, &run.controls);
        for (cell, found) in predictions(&run) {
            run.cells[cell].held_out = Some(found);
        }
        let rows = summary(&run);
        for (cell, row) in run.cells.iter_mut().zip(rows) {
            cell.survival = if cell.series.is_some() { survival(cell) } else { Vec::new() };
            cell.verdict = verdict(&run.times, &row);
            cell.row = row;
        }
        let chosen = run.series().map(|series| {
            let contest = SeriesContest::of(&run, &series)?;
            if run.times.is_valid() { Some(contest.fastest()) } else { contest.longest() }
        });
        for (best, places) in chosen.collect::<Vec<_>>().into_iter().zip(&run.series) {
            best.into_iter().for_each(|best| run.cells[places[best]].best = true);
        }
        run
    }

    /// Gives every cell what the blocks have of it, and decides which times count.
    fn add(&mut self, accounts: Vec<BlockAccount>) {
        let groups = self.manifest.groups();
        // If most blocks were disturbed, dropping them would leave too few: all times count,
        // and no verdict is given.
        let all = self.is_disturbed();
        // A list that grows exists next to its copy for a moment; together they are most of the
        // memory.
        let mut sizes = vec![0; self.cells.len()];
        accounts.iter().flat_map(|own| &own.samples).for_each(|(cell, _)| sizes[*cell] += 1);
        for (cell, size) in self.cells.iter_mut().zip(sizes) {
            cell.samples = Vec::with_capacity(size);
            cell.groups = Vec::with_capacity(size);
        }
        for (block, account) in self.blocks.iter().zip(accounts) {
            let group = (all || !block.disturbed).then_some(groups[block.session]);
            let timed = group == Some(self.session);
            for (cell, sample) in account.samples {
                self.cells[cell].groups.push(group);
                self.cells[cell].samples.push(Sample { timed, ..sample });
            }
            for (cell, reached) in account.reached {
                self.cells[cell].reached.extend(&reached);
            }
            for (cell, row) in account.failures {
                self.cells[cell].failures.push(row);
            }
            for (cell, row) in account.divergences {
                self.cells[cell].divergences.push(row);
            }
        }
    }

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

    /// Whether too many blocks were disturbed for a verdict. All times are kept then.
    pub fn is_disturbed(&self) -> bool {
        self.times.reasons.iter().any(|reason| matches!(reason, InvalidTimes::Disturbed { .. }))
    }
}

impl CellView {
    /// The first columns of a table by series: method, sampling, class.
    pub(super) fn names(&self) -> [DocCell; 3] {
        [&*self.name, &*self.sampling, &*class_with_word(&self.class)].map(DocCell::from)
    }

    /// The same columns of a table by cell, followed by K.
    pub(super) fn line(&self) -> Vec<DocCell> {
        let k = match self.is_baseline() {
            true => number(None, 0),
            false => self.method.num_speculative_tokens.into(),
        };
        self.names().into_iter().chain([k]).collect()
    }
}

/// The group of comparable sessions with the most undisturbed blocks; the earliest if
/// several have equally many.
fn most_common(groups: &[usize], blocks: &[BlockRow]) -> usize {
    let count = |group: usize| {
        let own = blocks.iter().filter(|block| groups[block.session] == group);
        own.filter(|block| !block.disturbed).count()
    };
    groups.iter().copied().rev().max_by_key(|&group| count(group)).unwrap_or(0)
}
