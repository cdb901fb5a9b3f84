//! The draft length that stands for a series: the best one, and how stable that choice is.

use super::loops::{is_looping, judged, judged_pairs};
use super::run::{CellView, Run};
use super::series::Series;
use super::validity::SpeedVerdict;
use crate::statistics::{Contest, Interval, PairedTime, pair_by_prompt};

/// The fastest cell of a series or, if the times give no verdict, that with the largest K.
pub(super) struct BestCell<'a> {
    pub(super) cell: &'a CellView,
    /// Its times paired with the baseline's, one pair per prompt.
    pub(super) times: Vec<PairedTime>,
    /// Cells that were excluded because they finished fewer prompts than others, with the
    /// number of prompts they finished.
    pub(super) left_out: Vec<(&'a CellView, usize)>,
    /// The contest that it won, with its number there; `None` if its K is the largest.
    won: Option<(Contest<'a>, usize)>,
}

impl BestCell<'_> {
    /// The share of resamples in which it is the fastest cell of its series; `None` if the
    /// series has only one cell or the run only one prompt, or the times give no verdict.
    pub(super) fn wins(&self) -> Option<f64> {
        let (contest, entrant) = self.won.as_ref()?;
        contest.wins().map(|wins| wins[*entrant])
    }
}

/// The cell that stands for a series; `None` if no cell was timed.
pub(super) fn best<'a>(run: &Run, series: &Series<'a>) -> Option<BestCell<'a>> {
    let mut contest = Contest::default();
    let mut entrants = Vec::new();
    for &cell in &series.cells {
        let all = pair_by_prompt(run.baseline(cell), &cell.samples);
        if !all.is_empty() {
            let times = all.values().copied().collect::<Vec<_>>();
            let judged = judged_pairs(run, cell);
            // If every generation has a loop, there is no verdict, and K is the fastest on loops.
            contest.add(if judged.is_empty() { all } else { judged });
            entrants.push((cell, times));
        }
    }
    let verdicts = contest.decide()?;
    let left_out = verdicts.left_out.iter().map(|&i| (entrants[i].0, entrants[i].1.len()));
    let left_out = left_out.collect();
    let valid = run.times.is_valid();
    // Cells are in order of increasing K.
    let longest = || (0..entrants.len()).rev().find(|i| !verdicts.left_out.contains(i));
    let entrant = if valid { verdicts.best } else { longest()? };
    let (cell, times) = entrants.swap_remove(entrant);
    let won = valid.then_some((contest, entrant));
    Some(BestCell { cell, times, left_out, won })
}

/// The verdict on a cell: on its generations without loops if plain decoding has too many.
pub(super) fn verdict(run: &Run, cell: &CellView) -> SpeedVerdict {
    let speedup = judged(&cell.row);
    let interval = speedup.lo.zip(speedup.hi).map(|(lo, hi)| Interval { lo, hi });
    match run.times.verdict(interval) {
        SpeedVerdict::TooFewPrompts if is_looping(&cell.row) => SpeedVerdict::TooManyLoops,
        found => found,
    }
}
