//! Which way to decode the forecasts speak for.

use serde::Serialize;

use super::cells::ForecastCell;
use crate::statistics::Ratio;

/// Whether drafting pays, by the forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForecastVerdict {
    /// It does, for prompts like these.
    Faster,
    /// The prompts do not tell.
    Undecided,
    /// It does not, with any K.
    Slower,
    /// Too few prompts for an interval.
    TooFewPrompts,
    /// Costs are not known: only acceptance is.
    NoCosts,
}

/// The cell with the largest speedup at a setting or, without costs, with the most tokens per
/// round; ties go to the smaller K, then to the rule that comes first.
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
        let order = order.then(best.way.simplicity().cmp(&next.way.simplicity()));
        if order.is_gt() { next } else { best }
    };
    cells.into_iter().reduce(better)
}

/// What follows from the best cell.
pub fn verdict(best: &ForecastCell, setting: usize) -> ForecastVerdict {
    let Some(speedup) = best.speedup(setting) else { return ForecastVerdict::NoCosts };
    match Ratio::interval(&speedup) {
        Some(interval) if interval.lo > 1.0 => ForecastVerdict::Faster,
        Some(interval) if interval.hi < 1.0 => ForecastVerdict::Slower,
        Some(_) => ForecastVerdict::Undecided,
        None => ForecastVerdict::TooFewPrompts,
    }
}
