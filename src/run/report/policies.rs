//! Compares draft length policies with the best fixed length, the baseline that an adaptive
//! policy must beat to be useful.

use super::document::DocBlock;
use super::loops::judged_pairs;
use super::run::{CellView, Run};
use super::series::settings_but;
use super::tables::{columns, ends, number, verdict_cell, with_interval};
use crate::measure::statistics::{
    Interval, LEVEL, SignFlip, against_tuned, sign_flips, speedup, speedup_interval,
};
use crate::method::length::LENGTHS;
use crate::run::experiment::Cell;

/// A cell whose draft length is not fixed, compared with the tuned fixed length.
#[derive(Debug)]
pub(super) struct Policy<'a> {
    pub(super) cell: &'a CellView,
    /// Time per token of the fixed length ÷ that of the policy.
    pub(super) ratio: Option<f64>,
    /// The 95 % interval of `ratio` over prompts.
    pub(super) interval: Option<Interval>,
    test: SignFlip,
}

/// Every cell whose draft length is not fixed, if the same drafter and verifier also ran
/// with fixed lengths. None if the times do not show which of these is the best.
pub(super) fn policies(run: &Run) -> Vec<Policy<'_>> {
    let mut held = Vec::new();
    for own in run.series().filter(|own| run.times.is_valid() && !is_fixed(own.first())) {
        let rivals = run.drafted();
        let rivals = rivals.filter(|rival| is_fixed(rival) && same_but_length(rival, own.first()));
        let fixed = rivals.map(|rival| judged_pairs(run, rival)).collect::<Vec<_>>();
        let cells = own.cells.iter();
        held.extend(cells.map(|cell| (*cell, against_tuned(&fixed, &judged_pairs(run, cell)))));
    }
    let all = held.iter().map(|(_, pairs)| pairs.values().copied().collect::<Vec<_>>());
    let tests = sign_flips(&all.collect::<Vec<_>>());
    let policies = held.iter().zip(tests).filter_map(|(&(cell, ref pairs), test)| {
        Some(Policy {
            cell,
            ratio: speedup(pairs.values()),
            interval: speedup_interval(pairs),
            test: test?,
        })
    });
    policies.collect()
}

fn is_fixed(cell: &Cell) -> bool {
    cell.method.length == "fixed"
}

fn same_but_length(a: &Cell, b: &Cell) -> bool {
    (&a.method.drafter, &a.method.verifier, a.goal())
        == (&b.method.drafter, &b.method.verifier, b.goal())
        && settings_but(LENGTHS, &a.method.length, a) == settings_but(LENGTHS, &b.method.length, b)
}

/// The section with the table of all policies; empty if there are none.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let rows = policies(run).into_iter().map(|policy| {
        let (lo, hi) = ends(policy.interval);
        let rest = [
            with_interval(policy.ratio, lo, hi, 3),
            number(Some(policy.test.p), 4),
            number(Some(policy.test.adjusted), 4),
            verdict_cell(policy.test.verdict(policy.ratio)),
        ];
        policy.cell.line().into_iter().chain(rest).collect()
    });
    let head = columns(&["speed against fixed [95 %]:", "p:", "p after Holm:", "verdict"]);
    let test = format!(
        "On each half of the prompts the policy is compared with the fixed K that was the fastest \
         on the other half, prompt by prompt and in the same block. The test is a sign-flip test \
         over prompts at {LEVEL} after Holm; \"mixed\" means that the test and the ratio of total \
         times point in opposite directions."
    );
    DocBlock::section("Policies against the best fixed length", &test, &head, rows.collect())
}
