//! Reasons to doubt a calibration.

use super::cell::{Plan, describe};
use crate::measure::rows::{Calibration, PassCost};

/// The warm-ups of a cell may differ by up to this factor. Other work that halves the
/// speed of one whole warm-up exceeds it; cold caches do not.
const APART: f64 = 1.5;

/// The interquartile range of a pass's samples may be up to this share of their median.
const WIDE: f64 = 0.5;

/// Why speedups predicted from a calibration are uncertain, as sentences.
pub(crate) fn doubts(calibration: &Calibration, plan: &Plan) -> Vec<String> {
    cells_apart(calibration, plan).into_iter().chain(passes_apart(calibration)).collect()
}

fn cells_apart(calibration: &Calibration, plan: &Plan) -> Option<String> {
    let spread = |id: &String| calibration.cells.get(id).and_then(|costs| costs.spread);
    let apart = plan.cells.iter().filter_map(|cell| Some((cell, spread(&cell.id)?)));
    let apart = apart.filter(|(_, spread)| *spread > APART).collect::<Vec<_>>();
    let (worst, spread) = apart.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "Warm-ups of {} of {} cells differ by more than a factor of {APART} (\"{}\": \
         {spread:.1}): their calibrated speedups are uncertain.",
        apart.len(),
        plan.cells.len(),
        describe(worst)
    ))
}

fn passes_apart(calibration: &Calibration) -> Option<String> {
    let share = |pass: &PassCost| pass.iqr_us / pass.us.max(f64::MIN_POSITIVE);
    let worst = calibration.passes.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    (share(worst) > WIDE).then(|| {
        format!(
            "T({}) was {:.0} µs with an interquartile range of {:.0} µs in the calibration: \
             calibrated speedups are uncertain.",
            worst.rows, worst.us, worst.iqr_us
        )
    })
}
