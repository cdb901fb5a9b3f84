//! Speedup against the plain baseline on the same prompts and repeats.

use std::collections::BTreeMap;

use super::interval::{Interval, Ratio};
use super::ratio;
use super::resamples::resamples;
use super::sample::{Sample, timed};

/// Decode time, new tokens and target passes of both sides on one prompt, or on the prompts of
/// one batch, summed over the repeats that both sides finished.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PairedTime {
    /// Decode time of plain decoding, µs.
    pub plain_us: f64,
    /// Its new tokens.
    pub plain_tokens: usize,
    /// Its target passes, without prefill.
    pub plain_passes: usize,
    /// Decode time of the cell, µs.
    pub us: f64,
    /// Its new tokens.
    pub tokens: usize,
    /// Its target passes, without prefill.
    pub passes: usize,
}

/// Matches generations of the baseline and of a cell by prompt and repeat. Generations that only
/// one side finished, or whose times do not count, are left out. Equal prompts,
/// and those of a batch, which share their times, are one entry under the name of the first.
pub fn pair_by_prompt<'a>(
    baseline: &[Sample],
    cell: &'a [Sample],
) -> BTreeMap<&'a str, PairedTime> {
    pair_samples(timed(baseline), timed(cell))
}

/// [`pair_by_prompt`] for samples chosen by the caller, which must all come from one machine.
pub fn pair_samples<'a, 'b>(
    baseline: impl Iterator<Item = &'b Sample>,
    cell: impl Iterator<Item = &'a Sample>,
) -> BTreeMap<&'a str, PairedTime> {
    let plain = baseline.map(|s| ((&*s.prompt, s.repeat), s)).collect::<BTreeMap<_, _>>();
    let mut pairs = BTreeMap::<&str, PairedTime>::new();
    for sample in cell {
        let Some(plain) = plain.get(&(&*sample.prompt, sample.repeat)) else {
            continue;
        };
        let pair = pairs.entry(&*sample.timed_with).or_default();
        pair.plain_us += plain.decode_us;
        pair.plain_tokens += plain.new_tokens;
        pair.plain_passes += plain.target_forwards;
        pair.us += sample.decode_us;
        pair.tokens += sample.new_tokens;
        pair.passes += sample.target_forwards;
    }
    pairs
}

/// (Σ decode µs / Σ new tokens) of plain decoding ÷ the same for the cell. `None` without
/// tokens or time.
pub fn speedup<'a>(pairs: impl IntoIterator<Item = &'a PairedTime>) -> Option<f64> {
    let mut sum = PairedTime::default();
    for pair in pairs {
        sum.plain_us += pair.plain_us;
        sum.plain_tokens += pair.plain_tokens;
        sum.us += pair.us;
        sum.tokens += pair.tokens;
    }
    ratio(ratio(sum.plain_us, sum.plain_tokens as f64)?, ratio(sum.us, sum.tokens as f64)?)
}

/// [`speedup`] with its uncertainty.
pub fn speedup_ratio(pairs: &BTreeMap<&str, PairedTime>) -> Ratio {
    Ratio::of(
        pairs
            .values()
            .map(|pair| ([pair.plain_us, pair.tokens as f64], [pair.plain_tokens as f64, pair.us])),
    )
}

/// The interval of [`speedup`].
pub fn speedup_interval(pairs: &BTreeMap<&str, PairedTime>) -> Option<Interval> {
    speedup_ratio(pairs).interval()
}

/// Several cells timed on the same prompts, to find the fastest one and how certain that is.
#[derive(Debug, Clone, Default)]
pub struct Contest<'a> {
    cells: Vec<BTreeMap<&'a str, PairedTime>>,
}

/// The result of a [`Contest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdicts {
    /// The cell with the largest speedup.
    pub best: usize,
    /// The cells that took no part, because they have fewer prompts than another.
    pub left_out: Vec<usize>,
}

/// The cells of a [`Contest`] that take part.
struct Entered {
    entrants: Vec<usize>,
    left_out: Vec<usize>,
    /// The times of each entrant on each common prompt.
    clusters: Vec<Vec<PairedTime>>,
}

impl<'a> Contest<'a> {
    /// Adds a cell, by its pairs with the baseline.
    pub fn add(&mut self, pairs: BTreeMap<&'a str, PairedTime>) {
        self.cells.push(pairs);
    }

    /// Finds the fastest cell on the prompts that all entrants have. A cell that failed
    /// on prompts that another finished does not enter, because it would take these
    /// prompts away from all others. `None` without a cell or a common prompt.
    pub fn decide(&self) -> Option<Verdicts> {
        let entered = self.entered()?;
        let best = entered.fastest(&entered.clusters.iter().collect::<Vec<_>>())?;
        Some(Verdicts { best, left_out: entered.left_out })
    }

    /// The share of the resamples in which each cell is the fastest; `None` for one cell or one
    /// prompt, with which the outcome is certain.
    pub fn wins(&self) -> Option<Vec<f64>> {
        let entered = self.entered()?;
        if entered.entrants.len() < 2 || entered.clusters.len() < 2 {
            return None;
        }
        let mut wins = vec![0usize; self.cells.len()];
        let mut contests = 0;
        resamples(&entered.clusters, |resample| {
            if let Some(c) = entered.fastest(resample) {
                wins[c] += 1;
                contests += 1;
            }
        });
        Some(wins.into_iter().map(|n| n as f64 / contests as f64).collect())
    }

    fn entered(&self) -> Option<Entered> {
        let most = self.cells.iter().map(BTreeMap::len).max()?;
        let (entrants, left_out) =
            (0..self.cells.len()).partition::<Vec<_>, _>(|&c| self.cells[c].len() == most);
        let entered = || entrants.iter().map(|&c| &self.cells[c]);
        let common = entered().next()?.keys().filter(|p| entered().all(|c| c.contains_key(*p)));
        let clusters = common.map(|p| entered().map(|c| c[p]).collect()).collect();
        Some(Entered { entrants, left_out, clusters })
    }
}

impl Entered {
    /// The fastest cell on some of the prompts.
    fn fastest(&self, prompts: &[&Vec<PairedTime>]) -> Option<usize> {
        // In reverse order, so that a tie goes to the first cell.
        let entrants = self.entrants.iter().enumerate().rev();
        entrants
            .filter_map(|(e, &cell)| Some((speedup(prompts.iter().map(|row| &row[e]))?, cell)))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, cell)| cell)
    }
}
