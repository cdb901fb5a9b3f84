//! Repetition loops in the completions of a run: how much of plain decoding lies in them, and on
//! which generations verdicts rest.

use std::collections::{BTreeMap, BTreeSet};

use super::document::DocCell;
use super::results::Results;
use super::series::Names;
use super::tables::{number, with_interval};
use crate::experiment::Cell;
use crate::rows::SummaryRow;
use crate::statistics::{MOST_LOOPED, PairedTime, Sample, loop_share, pair_samples, timed};

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

/// The speedup without loops; a dash where it is not needed.
pub(super) fn loop_free_cell(row: &SummaryRow) -> DocCell {
    match (is_looping(row), judged(row)) {
        (true, JudgedSpeedup { value, lo, hi }) => with_interval(value, lo, hi, 2),
        (false, _) => number(None, 2),
    }
}

/// Whether loops hold too much of the plain decoding that a cell is compared with.
pub(super) fn is_looping(row: &SummaryRow) -> bool {
    row.baseline_loop_share.is_some_and(|share| share > MOST_LOOPED)
}

/// The times of some generations of a cell, paired with those of plain decoding.
pub(super) fn pairs_of<'a>(
    results: &Results,
    cell: &Cell,
    samples: impl Iterator<Item = &'a Sample>,
) -> BTreeMap<&'a str, PairedTime> {
    pair_samples(timed(results.baseline(cell)), samples.filter(|sample| sample.timed))
}

/// The generations of a cell for which plain decoding has no loop.
pub(super) fn loop_free<'a>(results: &'a Results, cell: &Cell) -> Vec<&'a Sample> {
    let place = |sample: &'a Sample| (&*sample.prompt, sample.repeat);
    let plain = results.baseline(cell).iter().filter(|sample| sample.looped == 0);
    let free = plain.map(place).collect::<BTreeSet<_>>();
    let samples = results.samples(&cell.id).iter();
    samples.filter(|sample| free.contains(&place(sample))).collect()
}

/// The generations of a cell on which verdicts rest: all or, if plain decoding has too many loops,
/// those without.
pub(super) fn judged_samples<'a>(results: &'a Results, cell: &Cell) -> Vec<&'a Sample> {
    match loop_share(results.baseline(cell)) {
        Some(share) if share > MOST_LOOPED => loop_free(results, cell),
        _ => results.samples(&cell.id).iter().collect(),
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
    pub(super) fn of(results: &Results) -> Option<Self> {
        let all = || results.plan.cells.iter().filter(|cell| cell.is_baseline() && !cell.control);
        let names = Names::new(all());
        let shares = all().filter_map(|cell| Some((cell, loop_share(results.samples(&cell.id))?)));
        let (many, few) = shares.partition::<Vec<_>, _>(|(_, share)| *share > MOST_LOOPED);
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let many = many.iter().map(|(cell, share)| (percent(*share), names.goal(cell)));
        let many = many.map(|(share, goal)| format!("{share} at {goal}")).collect::<Vec<_>>();
        let most = few.into_iter().map(|(_, share)| share).max_by(f64::total_cmp).map(percent);
        let shares = match (many.join(", "), most) {
            (named, None) if named.is_empty() => return None,
            (named, Some(most)) if named.is_empty() => format!("at most {most}"),
            (named, None) => named,
            (named, Some(most)) => format!("{named} and at most {most} elsewhere"),
        };
        let sentence =
            format!("Of the tokens of plain decoding, {shares} lie in repetition loops.");
        Some(Self { sentence, alarming: !many.is_empty() && results.times().is_valid() })
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
