//! The best draft length of a series, and how sure that is.

use super::results::Results;
use super::series::Series;
use crate::experiment::Cell;
use crate::rows::SummaryRow;
use crate::statistics::{Contest, PairedTime, pair_by_prompt};

/// The fastest cell of a series.
pub(super) struct Best<'a> {
    /// The cell.
    pub(super) cell: &'a Cell,
    /// Its summary.
    pub(super) row: &'a SummaryRow,
    /// In which share of the resamples it is the fastest of its series; `None`
    /// without a rival or a second prompt.
    pub(super) wins: Option<f64>,
    /// Its times and the baseline's, by prompt.
    pub(super) times: Vec<PairedTime>,
    /// Cells that finished fewer prompts than others and so took no part, with the
    /// number of prompts.
    pub(super) left_out: Vec<(&'a Cell, usize)>,
}

/// The best cell of a series; `None` if none was timed.
pub(super) fn best<'a>(
    results: &'a Results,
    series: &Series<'a>,
    summary: &'a [SummaryRow],
) -> Option<Best<'a>> {
    let mut contest = Contest::default();
    let mut entrants = Vec::new();
    for cell in &series.cells {
        let pairs = pair_by_prompt(results.baseline(cell), results.samples(&cell.id));
        if !pairs.is_empty() {
            let times = pairs.values().copied().collect::<Vec<_>>();
            contest.add(pairs);
            entrants.push((*cell, times));
        }
    }
    let verdicts = contest.decide()?;
    let left_out = verdicts.left_out.iter().map(|&i| (entrants[i].0, entrants[i].1.len()));
    let left_out = left_out.collect();
    let (cell, times) = entrants.swap_remove(verdicts.best);
    let row = summary.iter().find(|row| row.cell == cell.id)?;
    let wins = verdicts.wins.map(|wins| wins[verdicts.best]);
    Some(Best { cell, row, wins, times, left_out })
}

/// What an interval of a speedup says.
pub(super) fn verdict(row: &SummaryRow) -> &'static str {
    match (row.speedup_lo, row.speedup_hi) {
        (Some(lo), _) if lo > 1.0 => "faster",
        (_, Some(hi)) if hi < 1.0 => "slower",
        (Some(_), Some(_)) => "no difference shown",
        _ => "unknown: too few prompts",
    }
}
