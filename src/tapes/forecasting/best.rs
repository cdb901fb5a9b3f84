//! The best decoding configuration by forecast.

use super::cells::ForecastCell;
use crate::run::report::SpeedVerdict;

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
pub fn verdict(best: &ForecastCell, setting: usize) -> SpeedVerdict {
    let speedup = best.speedup(setting);
    speedup.map_or(SpeedVerdict::NoCosts, |speedup| SpeedVerdict::of(speedup.interval()))
}
