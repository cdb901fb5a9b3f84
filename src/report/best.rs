//! The best draft length of a series, and how stable that choice is.

use super::loops::{is_looping, judged, judged_samples, pairs_of};
use super::results::Results;
use super::series::Series;
use crate::experiment::Cell;
use crate::rows::SummaryRow;
use crate::statistics::{Contest, PairedTime, pair_by_prompt};

/// The fastest cell of a series.
pub(super) struct BestCell<'a> {
    pub(super) cell: &'a Cell,
    /// Its row of `summary.csv`.
    pub(super) row: &'a SummaryRow,
    /// Its times paired with the baseline's, one pair per prompt.
    pub(super) times: Vec<PairedTime>,
    /// Cells that were excluded because they finished fewer prompts than others, with the
    /// number of prompts they finished.
    pub(super) left_out: Vec<(&'a Cell, usize)>,
    contest: Contest<'a>,
    /// Its number there.
    entrant: usize,
}

impl BestCell<'_> {
    /// The share of resamples in which it is the fastest cell of its series; `None` if the
    /// series has only one cell or the run only one prompt.
    pub(super) fn wins(&self) -> Option<f64> {
        self.contest.wins().map(|wins| wins[self.entrant])
    }
}

/// The fastest cell of a series; `None` if no cell was timed.
pub(super) fn best<'a>(
    results: &'a Results,
    series: &Series<'a>,
    summary: &'a [SummaryRow],
) -> Option<BestCell<'a>> {
    let mut contest = Contest::default();
    let mut entrants = Vec::new();
    for cell in &series.cells {
        let all = pair_by_prompt(results.baseline(cell), results.samples(&cell.id));
        if !all.is_empty() {
            let times = all.values().copied().collect::<Vec<_>>();
            let judged = pairs_of(results, cell, judged_samples(results, cell).into_iter());
            // If every generation has a loop, there is no verdict, and K is the fastest on loops.
            contest.add(if judged.is_empty() { all } else { judged });
            entrants.push((*cell, times));
        }
    }
    let verdicts = contest.decide()?;
    let left_out = verdicts.left_out.iter().map(|&i| (entrants[i].0, entrants[i].1.len()));
    let left_out = left_out.collect();
    let entrant = verdicts.best;
    let (cell, times) = entrants.swap_remove(entrant);
    let row = summary.iter().find(|row| row.cell == cell.id)?;
    Some(BestCell { cell, row, times, left_out, contest, entrant })
}

/// The conclusion that the confidence interval of a speedup allows: of that without loops if plain
/// decoding has too many.
pub(super) fn verdict(row: &SummaryRow) -> &'static str {
    let speedup = judged(row);
    match (speedup.lo, speedup.hi) {
        (Some(lo), _) if lo > 1.0 => "faster",
        (_, Some(hi)) if hi < 1.0 => "slower",
        (Some(_), Some(_)) => "no difference shown",
        _ if is_looping(row) => "unknown: too few prompts without loops",
        _ => "unknown: too few prompts",
    }
}
