//! Repetition loops in the completions of a run: how much of plain decoding lies in them, and on
//! which generations verdicts rest.

use std::collections::{BTreeMap, BTreeSet};

use super::document::TableCell;
use super::run::{CellView, Run};
use super::tables::{number, with_interval};
use super::validity::{SpeedVerdict, TimesValidity};
use crate::measure::rows::SummaryRow;
use crate::measure::statistics::{
    Interval, MOST_LOOPED, PairedTime, Sample, loop_share, pair_samples, timed,
};

/// A speedup with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct JudgedSpeedup {
    pub(super) value: Option<f64>,
    pub(super) lo: Option<f64>,
    pub(super) hi: Option<f64>,
}

/// The speedup on which the verdict on a cell rests: without loops if plain decoding has too many.
pub(super) fn judged(row: &SummaryRow) -> JudgedSpeedup {
    let [value, lo, hi] = match is_looping(row) {
        true => [row.loop_free_speedup, row.loop_free_speedup_lo, row.loop_free_speedup_hi],
        false => [row.speedup, row.speedup_lo, row.speedup_hi],
    };
    JudgedSpeedup { value, lo, hi }
}

/// The verdict on a cell by these times.
pub(super) fn verdict(times: &TimesValidity, row: &SummaryRow) -> SpeedVerdict {
    let speedup = judged(row);
    let interval = speedup.lo.zip(speedup.hi).map(|(lo, hi)| Interval { lo, hi });
    match times.verdict(interval) {
        SpeedVerdict::TooFewPrompts if is_looping(row) => SpeedVerdict::TooManyLoops,
        found => found,
    }
}

/// The speedup without loops; a dash where it is not needed.
pub(super) fn loop_free_cell(row: &SummaryRow) -> TableCell {
    match (is_looping(row), judged(row)) {
        (true, JudgedSpeedup { value, lo, hi }) => with_interval(value, lo, hi, 2),
        (false, _) => number(None, 2),
    }
}

/// Whether loops hold too much of the plain decoding that a cell is compared with.
pub(super) fn is_looping(row: &SummaryRow) -> bool {
    row.baseline_loop_share.is_some_and(|share| share > MOST_LOOPED)
}

/// Whether that holds for any cell of a run.
pub(super) fn any_looping(run: &Run) -> bool {
    run.cells.iter().any(|cell| is_looping(&cell.row))
}

/// The times of some generations of a cell, paired with those of plain decoding.
pub(super) fn pairs_of<'a>(
    run: &Run,
    cell: &CellView,
    samples: impl IntoIterator<Item = &'a Sample>,
) -> BTreeMap<&'a str, PairedTime> {
    pair_samples(timed(run.baseline(cell)), samples.into_iter().filter(|sample| sample.timed))
}

/// The same of the generations on which verdicts rest.
pub(super) fn judged_pairs<'a>(run: &Run, cell: &'a CellView) -> BTreeMap<&'a str, PairedTime> {
    pairs_of(run, cell, judged_samples(run, cell))
}

/// The generations of a cell for which plain decoding has no loop.
pub(super) fn loop_free<'a>(run: &Run, cell: &'a CellView) -> Vec<&'a Sample> {
    let plain = run.baseline(cell).iter().filter(|sample| sample.looped == 0);
    let free = plain.map(|sample| (&*sample.prompt, sample.repeat)).collect::<BTreeSet<_>>();
    let samples = cell.samples.iter();
    samples.filter(|sample| free.contains(&(&*sample.prompt, sample.repeat))).collect()
}

/// The generations of a cell on which verdicts rest: all or, if plain decoding has too many loops,
/// those without.
pub(super) fn judged_samples<'a>(run: &Run, cell: &'a CellView) -> Vec<&'a Sample> {
    match loop_share(run.baseline(cell)) {
        Some(share) if share > MOST_LOOPED => loop_free(run, cell),
        _ => cell.samples.iter().collect(),
    }
}

/// The share of plain decoding's tokens that lie in loops, in words.
pub(super) struct LoopShares {
    pub(super) sentence: String,
    /// Whether they are too many somewhere, so that verdicts there rest on other generations. Times
    /// that are not valid give no verdict.
    pub(super) alarming: bool,
}

impl LoopShares {
    /// The shares of a run; `None` without plain decoding.
    pub(super) fn of(run: &Run) -> Option<Self> {
        let shares = run.baselines();
        let shares = shares.filter_map(|cell| Some((cell, loop_share(&cell.samples)?)));
        let (many, few) = shares.partition::<Vec<_>, _>(|(_, share)| *share > MOST_LOOPED);
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let named =
            |(cell, share): &(&CellView, f64)| format!("{} at {}", percent(*share), cell.sampling);
        let many = many.iter().map(named).collect::<Vec<_>>();
        let most = few.into_iter().map(|(_, share)| share).max_by(f64::total_cmp).map(percent);
        let shares = match (many.join(", "), most) {
            (named, None) if named.is_empty() => return None,
            (named, Some(most)) if named.is_empty() => format!("at most {most}"),
            (named, None) => named,
            (named, Some(most)) => format!("{named} and at most {most} elsewhere"),
        };
        let sentence =
            format!("Of the tokens of plain decoding, {shares} lie in repetition loops.");
        Some(Self { sentence, alarming: !many.is_empty() && run.times.is_valid() })
    }

    /// The first words of a report: where the shares are too large, what follows from it.
    pub(super) fn words(&self) -> String {
        if !self.alarming {
            return self.sentence.clone();
        }
        format!(
            "{} Where these are more than {:.0} %, verdicts rest on the generations without a loop, \
             and both speedups are shown.",
            self.sentence,
            100.0 * MOST_LOOPED
        )
    }
}
