//! What each axis of the sweep changes: one contrast for every value of an axis, pooled over all
//! other axes and K.

use std::collections::BTreeMap;

use super::document::{DocBlock, TableCell};
use super::loops::{judged_pairs, judged_samples};
use super::run::{CellView, Run};
use super::series::attributes;
use super::tables::{ends, number, verdict_cell, with_interval};
use crate::core::params::Param;
use crate::core::registry::Entry;
use crate::measure::statistics::{
    AxisContrast, AxisPoint, SignFlip, acceptance, axis_contrasts, by_prompt, sign_flip_tests,
};
use crate::method::draft::DRAFTERS;
use crate::method::length::LENGTHS;
use crate::method::verify::VERIFIERS;
use crate::run::experiment::Cell;

/// The axis of K.
const K: &str = "num_speculative_tokens";

/// The values with which others of an axis are compared; elsewhere, the first one of the plan.
const REFERENCES: [(&str, &str); 2] = [("verifier", "rejection"), ("length", "fixed")];

/// A contrast with its test.
struct TestedContrast {
    contrast: AxisContrast,
    test: SignFlip,
}

/// The section with the table of all contrasts; empty if no two cells differ in one axis alone.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let cells = run.cells.iter().filter(|cell| cell.series.is_some() && cell.beam.is_none());
    let cells = cells.collect::<Vec<_>>();
    let tau = tested(cells.iter().map(|cell| point(cell, rounds(run, cell))).collect());
    let speed = match run.times.is_valid() {
        true => tested(cells.iter().map(|cell| point(cell, speeds(run, cell))).collect()),
        false => Vec::new(),
    };
    let rows = tau.into_iter().map(|TestedContrast { contrast: own, test }| {
        let same = |other: &&TestedContrast| {
            (&other.contrast.axis, &other.contrast.value) == (&own.axis, &own.value)
        };
        let fast = speed.iter().find(same);
        let verdict = fast.map_or("unknown", |fast| fast.test.verdict(fast.contrast.ratio));
        vec![
            own.axis.as_str().into(),
            own.value.as_str().into(),
            own.against.as_str().into(),
            own.pairs.into(),
            own.prompts.into(),
            ratio(Some(&own)),
            number(Some(test.adjusted), 4),
            ratio(fast.map(|fast| &fast.contrast)),
            number(fast.map(|fast| fast.test.adjusted), 4),
            verdict_cell(run.times.withheld().map_or(verdict, |withheld| withheld.words())),
        ]
    });
    DocBlock::section(
        "One axis at a time",
        "Every line compares a value of one axis with another one, over the pairs of cells that \
         differ in nothing else and have the most prompts. These are the prompts that both cells \
         finished and on which verdicts rest. A ratio is the geometric mean of those of the pairs, \
         with an interval over prompts; that of speedups is one of speeds unless the axis changes \
         plain decoding, too. p is that of a sign-flip test \
         over prompts, after Holm for the lines of the table; the verdict is about speed.",
        &[
            "axis",
            "value",
            "against",
            "pairs of cells:",
            "prompts:",
            "τ ratio [95 %]:",
            "p of τ:",
            "speedup ratio [95 %]:",
            "p of speedup:",
            "verdict",
        ],
        rows.collect(),
    )
}

fn ratio(contrast: Option<&AxisContrast>) -> TableCell {
    let (lo, hi) = ends(contrast.and_then(|contrast| contrast.interval));
    with_interval(contrast.and_then(|contrast| contrast.ratio), lo, hi, 3)
}

/// The contrasts of cells, with tests that are adjusted for their number.
fn tested<const N: usize>(points: Vec<AxisPoint<'_, N>>) -> Vec<TestedContrast> {
    let contrasts = axis_contrasts(&points, &REFERENCES);
    let logs = contrasts.iter().map(|contrast| contrast.logs.clone()).collect::<Vec<_>>();
    let tests = contrasts.into_iter().zip(sign_flip_tests(&logs));
    tests.filter_map(|(contrast, test)| Some(TestedContrast { contrast, test: test? })).collect()
}

fn point<'r, const N: usize>(
    cell: &Cell,
    prompts: BTreeMap<&'r str, ([f64; N], [f64; N])>,
) -> AxisPoint<'r, N> {
    let mut axes = attributes(cell);
    axes.insert(K.to_owned(), cell.method.num_speculative_tokens.to_string());
    // Batches of different sizes have no prompt in common: those of one share their times.
    let fixed = axes.remove("batch").unwrap_or_default();
    let method = &cell.method;
    let own = BTreeMap::from([
        ("drafter", settings(DRAFTERS, &method.drafter)),
        ("verifier", settings(VERIFIERS, &method.verifier)),
        ("length", settings(LENGTHS, &method.length)),
    ]);
    AxisPoint { axes, own, fixed, prompts }
}

/// The settings that a method declares.
fn settings<B>(registry: &'static [Entry<B>], name: &str) -> Vec<&'static str> {
    let entry = registry.iter().find(|entry| entry.name == name);
    let params: &[Param] = entry.map_or(&[], |entry| entry.params);
    params.iter().map(|param| param.key).collect()
}

/// Tokens per target pass, by prompt.
fn rounds<'r>(run: &Run, cell: &'r CellView) -> BTreeMap<&'r str, ([f64; 1], [f64; 1])> {
    let prompts = by_prompt(judged_samples(run, cell)).into_iter();
    let sums = prompts.map(|(prompt, samples)| (prompt, acceptance(samples)));
    sums.map(|(prompt, s)| (prompt, ([(s.accepted + s.rounds) as f64], [s.rounds as f64])))
        .collect()
}

/// The speedup over plain decoding, by prompt.
fn speeds<'r>(run: &Run, cell: &'r CellView) -> BTreeMap<&'r str, ([f64; 2], [f64; 2])> {
    let sums = judged_pairs(run, cell).into_iter().map(|(prompt, pair)| {
        (prompt, ([pair.plain_us, pair.tokens as f64], [pair.plain_tokens as f64, pair.us]))
    });
    sums.collect()
}
