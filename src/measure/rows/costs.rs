//! The costs of passes and bookkeeping, as recorded by the calibration of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The costs of forward passes and bookkeeping on this machine, measured before the
/// sweep.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Calibration {
    /// Context in tokens at which the passes were timed.
    pub context_tokens: usize,
    /// Costs of target passes by number of rows, ascending from 1. Not every count that
    /// can occur in the sweep is timed; [`Self::target_us`] interpolates.
    pub passes: Vec<PassCost>,
    /// The number of threads that the passes of `target` and `draft` use, by number of rows:
    /// each number of rows from which on it changes. Empty in runs of older versions.
    #[serde(default)]
    pub threads: BTreeMap<String, BTreeMap<usize, usize>>,
    /// Costs of the cells' own bookkeeping, from their warm-ups, by cell id. Cells whose
    /// warm-ups all failed are missing.
    pub cells: BTreeMap<String, CellCosts>,
}

/// T(n): a target pass of n rows.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PassCost {
    /// The number of rows, n.
    pub rows: usize,
    /// Median, in µs.
    pub us: f64,
    /// Interquartile range of the same samples, in µs.
    pub iqr_us: f64,
    /// Number of samples.
    pub samples: usize,
}

/// T(n) measured again between two blocks of the sweep.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Recalibration {
    /// The block before which it was measured.
    pub block: usize,
    /// The costs, for the numbers of rows of the calibration.
    pub passes: Vec<PassCost>,
}

/// Costs of a cell in µs: the median over its warm-ups of each warm-up's median over its
/// rounds. One disturbed warm-up out of three does no harm.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellCosts {
    /// t_d: drafting, per proposed token; `None` if no warm-up proposed any.
    pub draft_us_per_token: Option<f64>,
    /// t_v: distributions and verification, per round.
    pub verify_us: f64,
    /// t_o: everything else, per round.
    pub other_us: f64,
    /// Largest ÷ smallest of the warm-ups' median round times; `None` with fewer than two
    /// warm-ups.
    pub spread: Option<f64>,
}

impl CellCosts {
    /// The cost of a round without the target's pass if `proposed` tokens are drafted, in
    /// µs; `None` if drafting was never timed.
    pub fn outside_target(&self, proposed: usize) -> Option<f64> {
        let draft = match proposed {
            0 => 0.0,
            n => n as f64 * self.draft_us_per_token?,
        };
        Some(draft + self.verify_us + self.other_us)
    }
}

impl Calibration {
    /// The same with the passes' costs during the sweep: for each number of rows the median over
    /// the calibrations between blocks, where there are any.
    #[must_use]
    pub fn during(&self, sweep: &[Recalibration]) -> Self {
        let mut during = self.clone();
        for pass in &mut during.passes {
            let again = sweep.iter().filter_map(|again| {
                Some(again.passes.iter().find(|own| own.rows == pass.rows)?.us)
            });
            let mut again = again.collect::<Vec<_>>();
            again.sort_by(f64::total_cmp);
            let middle = again.len().saturating_sub(1) / 2..=again.len() / 2;
            if let Some(around) = again.get(middle) {
                pass.us = around.iter().sum::<f64>() / around.len() as f64;
            }
        }
        during
    }

    /// T(`rows`) in µs, interpolated linearly between timed counts; `None` outside their
    /// range.
    pub fn target_us(&self, rows: usize) -> Option<f64> {
        let above = self.passes.iter().position(|pass| pass.rows >= rows)?;
        let high = self.passes[above];
        if high.rows == rows {
            return Some(high.us);
        }
        let low = self.passes[above.checked_sub(1)?];
        let share = (rows - low.rows) as f64 / (high.rows - low.rows) as f64;
        Some(low.us + share * (high.us - low.us))
    }
}
