//! The draft length that stands for a series: the best one, and how stable that choice is.

use super::loops::judged_pairs;
use super::run::{CellView, Run, Series};
use crate::measure::statistics::{Contest, Verdicts, pair_by_prompt};

/// The place in a series of the cell that stands for it: the fastest or, if the times give no
/// verdict, that with the largest K. `None` if no cell was timed.
pub(super) fn best(run: &Run, series: &Series<'_>) -> Option<usize> {
    let contest = SeriesContest::of(run, series)?;
    if run.times.is_valid() { Some(contest.fastest()) } else { contest.longest() }
}

/// The timed cells of a series as entrants of a contest.
pub(super) struct SeriesContest<'a> {
    series: &'a Series<'a>,
    contest: Contest<'a>,
    verdicts: Verdicts,
    /// Their places in the series, each with the number of prompts that it finished.
    entrants: Vec<(usize, usize)>,
}

impl<'a> SeriesContest<'a> {
    /// The contest of a series; `None` if no cell was timed.
    pub(super) fn of(run: &Run, series: &'a Series<'a>) -> Option<Self> {
        let (mut contest, mut entrants) = (Contest::default(), Vec::new());
        for (at, &cell) in series.cells.iter().enumerate() {
            let all = pair_by_prompt(run.baseline(cell), &cell.samples);
            if !all.is_empty() {
                entrants.push((at, all.len()));
                let judged = judged_pairs(run, cell);
                // If every generation has a loop, there is no verdict, and K is the fastest on loops.
                contest.add(if judged.is_empty() { all } else { judged });
            }
        }
        Some(Self { series, verdicts: contest.decide()?, contest, entrants })
    }

    /// The place of the fastest cell.
    fn fastest(&self) -> usize {
        self.entrants[self.verdicts.best].0
    }

    /// The place of the cell with the largest K.
    fn longest(&self) -> Option<usize> {
        let mut entrants = (0..self.entrants.len()).rev();
        entrants.find(|at| !self.verdicts.left_out.contains(at)).map(|at| self.entrants[at].0)
    }

    /// The share of resamples in which the fastest cell is that; `None` if the series has only one
    /// cell or the run only one prompt.
    pub(super) fn wins(&self) -> Option<f64> {
        self.contest.wins().map(|wins| wins[self.verdicts.best])
    }

    /// Cells that were excluded because they finished fewer prompts than others, with the number
    /// of prompts that they finished.
    pub(super) fn left_out(&self) -> impl Iterator<Item = (&'a CellView, usize)> {
        let entrants = self.verdicts.left_out.iter().map(|&entrant| self.entrants[entrant]);
        entrants.map(|(at, prompts)| (self.series.cells[at], prompts))
    }
}
