//! Whether the calibration's costs are those of the sweep: where they are not, a
//! predicted speedup is off however well it knows the acceptance.

use super::results::Results;
use crate::experiment::{Cell, describe, doubts};
use crate::statistics::{rounds, timed};

/// Rounds may cost this factor more or less than the calibration says. It times
/// passes at one context, which grows in the sweep: that alone stays well below.
const OFF: f64 = 1.25;

/// Why predicted speedups are uncertain, as sentences.
pub(super) fn warnings(results: &Results) -> Vec<String> {
    let (plan, session) = (&results.plan, results.session());
    let known = |cell| Some((cell, taken(results, cell)?));
    let factors = plan.cells.iter().filter_map(known).collect::<Vec<(&Cell, f64)>>();
    let far = |factor: f64| factor.ln().abs();
    let off = factors.iter().filter(|(_, factor)| far(*factor) > OFF.ln());
    let worst = off.clone().max_by(|a, b| far(a.1).total_cmp(&far(b.1)));
    let off = worst.map(|(cell, factor)| {
        format!(
            "Rounds of {} of {} cells took more than {OFF} times what the calibration says, or \
             less than its inverse (\"{}\": {factor:.2} times): their predicted speedups are off.",
            off.count(),
            factors.len(),
            describe(cell)
        )
    });
    doubts(&session.calibration, plan).into_iter().chain(off).collect()
}

/// What the rounds of a cell took ÷ what the calibration says that they cost;
/// `None` if it does not say so of all of them.
fn taken(results: &Results, cell: &Cell) -> Option<f64> {
    let calibration = &results.session().calibration;
    let costs = calibration.cells.get(&cell.id)?;
    let (mut took, mut cost) = (0.0, 0.0);
    for round in rounds(timed(results.samples(&cell.id))) {
        took += round.draft_us + round.target_us + round.verify_us + round.other_us;
        cost += costs.beside_target(round.proposed)? + calibration.target_us(round.proposed + 1)?;
    }
    (cost > 0.0).then_some(took / cost)
}
