//! What passes and bookkeeping cost, as a run's calibration measured it before
//! the sweep, and reasons to doubt it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cell::{Plan, describe};

/// Warm-ups of a cell may differ by this factor. Work beside them that halves
/// the pace for all of one warm-up goes beyond it; cold caches do not.
const APART: f64 = 1.5;

/// The interquartile range of a pass's samples may be this share of their median.
const WIDE: f64 = 0.5;

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

    /// Why predictions from it are uncertain, as sentences.
    pub(crate) fn doubts(&self, plan: &Plan) -> Vec<String> {
        self.cells_apart(plan).into_iter().chain(self.passes_apart()).collect()
    }

    fn cells_apart(&self, plan: &Plan) -> Option<String> {
        let spread = |id: &String| self.cells.get(id).and_then(|costs| costs.spread);
        let apart = plan.cells.iter().filter_map(|cell| Some((cell, spread(&cell.id)?)));
        let apart = apart.filter(|(_, spread)| *spread > APART).collect::<Vec<_>>();
        let (worst, spread) = apart.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(format!(
            "Warm-ups of {} of {} cells differ by more than a factor of {APART} (\"{}\": \
             {spread:.1}): their predicted speedups are uncertain.",
            apart.len(),
            plan.cells.len(),
            describe(worst)
        ))
    }

    fn passes_apart(&self) -> Option<String> {
        let share = |pass: &PassCost| pass.iqr_us / pass.us.max(f64::MIN_POSITIVE);
        let worst = self.passes.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
        (share(worst) > WIDE).then(|| {
            format!(
                "T({}) was {:.0} µs with an interquartile range of {:.0} µs in the calibration: \
                 predicted speedups are uncertain.",
                worst.rows, worst.us, worst.iqr_us
            )
        })
    }
}
