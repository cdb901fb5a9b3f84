//! Control cells, which run twice in every block. A difference between the two runs is
//! chance or a disturbed machine, never an effect of the method.

use super::document::DocBlock;
use super::run::Run;
use super::tables::{ends, number, with_interval};
use crate::measure::statistics::{
    Interval, LEVEL, SignFlip, pair_by_prompt, sign_flips, speedup, speedup_interval,
};
use crate::run::experiment::describe;

/// Two runs of one cell.
#[derive(Debug, Clone, PartialEq)]
struct Control {
    /// The cell in words.
    cell: String,
    /// Time per token of the first run ÷ that of the second.
    ratio: Option<f64>,
    interval: Option<Interval>,
    test: SignFlip,
}

impl Control {
    fn verdict(&self) -> &'static str {
        match self.test {
            test if test.differs() => "DISTURBED",
            SignFlip { possible: true, .. } => "no difference",
            SignFlip { possible: false, .. } => "too few prompts to tell",
        }
    }
}

/// Compares the two runs of every control cell that was timed.
fn controls(run: &Run) -> Vec<Control> {
    let both = run.plan.controls().into_iter().map(|places| {
        let [first, again] = places.map(|at| &run.cells[at]);
        (first, pair_by_prompt(&first.samples, &again.samples))
    });
    let both = both.collect::<Vec<_>>();
    let times = both.iter().map(|(_, pairs)| pairs.values().copied().collect::<Vec<_>>());
    let tests = sign_flips(&times.collect::<Vec<_>>());
    let controls = both.iter().zip(tests).filter_map(|((first, pairs), test)| {
        Some(Control {
            cell: describe(first),
            ratio: speedup(pairs.values()),
            interval: speedup_interval(pairs),
            test: test?,
        })
    });
    controls.collect()
}

/// The number of control cells whose two runs differ by more than chance.
pub(super) fn differing(run: &Run) -> usize {
    controls(run).iter().filter(|control| control.test.differs()).count()
}

/// The section with the table of all control cells; empty if there are none.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let rows = controls(run).into_iter().map(|control| {
        let ((lo, hi), verdict) = (ends(control.interval), control.verdict());
        vec![
            control.cell.into(),
            with_interval(control.ratio, lo, hi, 3),
            number(Some(control.test.p), 4),
            number(Some(control.test.adjusted), 4),
            verdict.into(),
        ]
    });
    let head = ["cell", "first ÷ second [95 %]:", "p:", "p after Holm:", "verdict"];
    let test = format!(
        "These cells ran twice in every block. A difference between the two is not due to the \
         method. The test is a sign-flip test over prompts; below {LEVEL} after Holm the run \
         counts as disturbed."
    );
    DocBlock::section("The same cell twice", &test, &head, rows.collect())
}
