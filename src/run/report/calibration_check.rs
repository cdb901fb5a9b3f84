//! Checks that rounds cost in the sweep what the calibration measured. If they do not,
//! calibrated speedups are wrong even if the acceptance they expect is right.

use super::run::{CellView, Run};
use crate::measure::rows::Calibration;
use crate::measure::statistics::{rounds, timed, times};
use crate::run::experiment::{describe, doubts};

/// The tolerated ratio, in either direction, between the cost of rounds and the calibration.
/// The calibration times passes at one context length, and the context grows in the sweep;
/// that alone changes costs by much less.
const OFF: f64 = 1.25;

/// One sentence per reason why calibrated speedups are uncertain.
pub(super) fn warnings(run: &Run) -> Vec<String> {
    let session = run.session();
    let costs = session.costs();
    let factors = run.cells.iter().filter_map(|cell| Some((cell, taken(cell, &costs)?)));
    let factors = factors.collect::<Vec<_>>();
    let far = |factor: f64| factor.ln().abs();
    let off = factors.iter().filter(|(_, factor)| far(*factor) > OFF.ln());
    let worst = off.clone().max_by(|a, b| far(a.1).total_cmp(&far(b.1)));
    let off = worst.map(|(cell, factor)| {
        format!(
            "In {} of {} cells a round took more than {OFF} times as long as the calibration \
             predicts, or less than 1/{OFF} of that (\"{}\": {factor:.2} times): their calibrated \
             speedups are off.",
            off.count(),
            factors.len(),
            describe(cell)
        )
    });
    doubts(&session.calibration, &run.plan).into_iter().chain(off).collect()
}

/// Measured time of a cell's rounds ÷ their time according to the calibration; `None` if
/// the calibration lacks the cost of any of them.
fn taken(cell: &CellView, calibration: &Calibration) -> Option<f64> {
    let costs = calibration.cells.get(&cell.id).filter(|_| cell.batch == 1)?;
    let mut cost = 0.0;
    for round in rounds(timed(&cell.samples)) {
        cost +=
            costs.outside_target(round.proposed)? + calibration.target_us(round.proposed + 1)?;
    }
    (cost > 0.0).then(|| times(timed(&cell.samples)).total() / cost)
}
