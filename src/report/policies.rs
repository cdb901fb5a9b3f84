//! Compares draft length policies with the best fixed length, the baseline that an adaptive
//! policy must beat to be useful.

use std::collections::BTreeMap;

use super::document::DocBlock;
use super::loops::{judged_samples, pairs_of};
use super::results::Results;
use super::series::{Series, columns, settings_but};
use super::tables::{ends, number, verdict_cell, with_interval};
use crate::experiment::Cell;
use crate::length::LENGTHS;
use crate::statistics::{
    Interval, LEVEL, PairedTime, SignFlip, against_tuned, sign_flips, speedup, speedup_interval,
};

/// A cell whose draft length is not fixed, compared with the tuned fixed length.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Policy<'a> {
    /// Its method and sampling setting.
    pub(super) series: &'a Series<'a>,
    pub(super) cell: &'a Cell,
    /// Time per token of the fixed length ÷ that of the policy.
    pub(super) ratio: Option<f64>,
    /// The 95 % interval of `ratio` over prompts.
    pub(super) interval: Option<Interval>,
    test: SignFlip,
}

/// Every cell whose draft length is not fixed, if the same drafter and verifier also ran
/// with fixed lengths. None if the times do not show which of these is the best.
pub(super) fn policies<'a>(results: &Results, series: &'a [Series<'_>]) -> Vec<Policy<'a>> {
    let mut held = Vec::new();
    let valid = results.times().is_valid();
    for own in series.iter().filter(|s| valid && !is_fixed(s.cells[0])) {
        let rivals = series.iter().flat_map(|s| &s.cells);
        let rivals = rivals.filter(|c| is_fixed(c) && same_but_length(c, own.cells[0]));
        let fixed = rivals.map(|c| times(results, c)).collect::<Vec<_>>();
        let cells = own.cells.iter();
        held.extend(cells.map(|c| (own, *c, against_tuned(&fixed, &times(results, c)))));
    }
    let all = held.iter().map(|(_, _, pairs)| pairs.values().copied().collect::<Vec<_>>());
    let tests = sign_flips(&all.collect::<Vec<_>>());
    let policies = held.iter().zip(tests).filter_map(|(&(own, cell, ref pairs), test)| {
        Some(Policy {
            series: own,
            cell,
            ratio: speedup(pairs.values()),
            interval: speedup_interval(pairs),
            test: test?,
        })
    });
    policies.collect()
}

/// The times on which the verdict rests.
fn times<'a>(results: &'a Results, cell: &Cell) -> BTreeMap<&'a str, PairedTime> {
    pairs_of(results, cell, judged_samples(results, cell).into_iter())
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
pub(super) fn section(results: &Results, series: &[Series<'_>]) -> Vec<DocBlock> {
    let rows = policies(results, series).into_iter().map(|policy| {
        let (lo, hi) = ends(policy.interval);
        let rest = [
            with_interval(policy.ratio, lo, hi, 3),
            number(Some(policy.test.p), 4),
            number(Some(policy.test.adjusted), 4),
            verdict_cell(policy.test.verdict(policy.ratio)),
        ];
        policy.series.line(policy.cell).into_iter().chain(rest).collect()
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
