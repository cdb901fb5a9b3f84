//! What passes and bookkeeping cost, as the calibration of a run records it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What forward passes and bookkeeping cost here, measured before the sweep.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Calibration {
    /// Context in tokens at which the passes were timed.
    pub context_tokens: usize,
    /// Target passes by their rows, ascending from 1: of the counts that can
    /// occur in the sweep, enough to know those between.
    pub passes: Vec<PassCost>,
    /// Costs of the cells' own bookkeeping, from the warm-up, by cell id; without
    /// the cells whose warm-ups all failed.
    pub cells: BTreeMap<String, CellCosts>,
}

/// T(n): a target pass of n rows.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PassCost {
    /// n.
    pub rows: usize,
    /// Median, in µs.
    pub us: f64,
    /// Interquartile range of the same samples, in µs.
    pub iqr_us: f64,
    /// Number of samples.
    pub samples: usize,
}

/// Costs of a cell in µs: of each warm-up the median over its rounds, of these
/// the median. One disturbed warm-up of three changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellCosts {
    /// t_d: drafting, per proposed token; `None` if no warm-up proposed any.
    pub draft_us_per_token: Option<f64>,
    /// t_v: distributions and verification, per round.
    pub verify_us: f64,
    /// t_o: everything else, per round.
    pub other_us: f64,
    /// The largest ÷ the smallest of the warm-ups' median times of a round;
    /// `None` of fewer than two warm-ups.
    pub spread: Option<f64>,
}

impl CellCosts {
    /// What a round costs beside the target's pass if `proposed` tokens are
    /// drafted, in µs.
    pub fn beside_target(&self, proposed: usize) -> Option<f64> {
        let draft = match proposed {
            0 => 0.0,
            n => n as f64 * self.draft_us_per_token?,
        };
        Some(draft + self.verify_us + self.other_us)
    }
}

impl Calibration {
    /// T(`rows`) in µs, between two counts that were timed in proportion; `None`
    /// outside of them.
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
