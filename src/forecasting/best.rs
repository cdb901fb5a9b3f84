//! The best decoding configuration by forecast.

use serde::Serialize;

use super::cells::ForecastCell;
use crate::statistics::Ratio;

/// Whether drafting pays, by the forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForecastVerdict {
    /// It does, for prompts like these.
    Faster,
    /// These prompts do not decide it.
    Undecided,
    /// It does not pay with any K.
    Slower,
    /// Too few prompts for an interval.
    TooFewPrompts,
    /// Costs are unknown; only acceptance is known.
    NoCosts,
}

/// The cell with the largest speedup at a setting or, without costs, with the most tokens per
/// round. Ties go to the smaller K, then to the rule that comes first.
pub fn best<'c>(
    cells: impl IntoIterator<Item = &'c ForecastCell>,
    setting: usize,
) -> Option<&'c ForecastCell> {
    let rate = |cell: &ForecastCell| {
        let ratio = cell.speedup(setting).unwrap_or_else(|| cell.block_efficiency());
        ratio.value().unwrap_or(0.0)
    };
    let better = |best: &'c ForecastCell, next: &'c ForecastCell| {
        let order = rate(next).total_cmp(&rate(best));
        let order = order.then(best.config.simplicity().cmp(&next.config.simplicity()));
        if order.is_gt() { next } else { best }
    };
    cells.into_iter().reduce(better)
}

/// The verdict on the best cell.
pub fn verdict(best: &ForecastCell, setting: usize) -> ForecastVerdict {
    let Some(speedup) = best.speedup(setting) else { return ForecastVerdict::NoCosts };
    match Ratio::interval(&speedup) {
        Some(interval) if interval.lo > 1.0 => ForecastVerdict::Faster,
        Some(interval) if interval.hi < 1.0 => ForecastVerdict::Slower,
        Some(_) => ForecastVerdict::Undecided,
        None => ForecastVerdict::TooFewPrompts,
    }
}
