//! Compares verifiers: with the ceiling of any exact rule, with rejection sampling of the
//! same drafts, and with the target's distribution.

use std::collections::{BTreeMap, BTreeSet};

use super::document::DocBlock;
use super::run::{CellView, Run};
use super::series::settings_but;
use super::tables::{columns, ends, lines, number, with_interval};
use crate::measure::statistics::{
    Interval, block_efficiency_ratio, branches, pair_by_prompt, speedup, speedup_interval,
};
use crate::method::decode::MethodSpec;
use crate::method::verify::VERIFIERS;
use crate::run::experiment::Cell;

/// The section on acceptance relative to its ceiling. Empty unless the run has several
/// verifiers or a drafter that branches, since a single chain verifier has nothing to compare.
pub(super) fn ceilings(run: &Run) -> Vec<DocBlock> {
    let verifiers = run.drafted().map(|cell| &cell.method.verifier).collect::<BTreeSet<_>>();
    let compares = verifiers.len() > 1 || run.drafted().any(|cell| branches(&cell.samples));
    let table = lines(run.drafted().filter(|_| compares), |cell| {
        let row = &cell.row;
        Some(vec![
            with_interval(
                row.block_efficiency,
                row.block_efficiency_lo,
                row.block_efficiency_hi,
                3,
            ),
            number(row.alpha, 3),
            number(Some(row.ceiling?), 3),
            number(row.share_of_ceiling, 3),
        ])
    });
    DocBlock::section(
        "Against the ceiling",
        "α* is the largest probability with which an exact rule can accept one of a node's \
         children. A share below 1 is acceptance that the rule gives up; rules that weigh \
         whole paths can exceed 1, and approximate rules are not bound by it.",
        &columns(&[
            "τ [95 %]:",
            "alpha, mean Σ min(p, q) per position:",
            "ceiling α*:",
            "accepted ÷ ceiling:",
        ]),
        table,
    )
}

/// The verifier that others are compared with.
const COMMON: &str = "rejection";

/// A cell compared with rejection sampling of the same drafts.
pub(super) struct Rival<'a> {
    pub(super) cell: &'a CellView,
    /// τ of the cell ÷ τ of rejection sampling.
    pub(super) tau: f64,
    pub(super) tau_interval: Option<Interval>,
    /// Time per token of rejection sampling ÷ that of the cell.
    pub(super) speed: Option<f64>,
    pub(super) speed_interval: Option<Interval>,
}

/// Compares every cell that has another verifier with rejection sampling of the same drafts.
pub(super) fn rivals(run: &Run) -> Vec<Rival<'_>> {
    let (common, others) =
        run.drafted().partition::<Vec<_>, _>(|cell| cell.method.verifier == COMMON);
    let common = common.into_iter().map(|cell| (drafts(cell), cell)).collect::<BTreeMap<_, _>>();
    let rivals = others.into_iter().filter_map(|cell| {
        let (own, other) = (&cell.samples, &common.get(&drafts(cell))?.samples);
        let ratio = block_efficiency_ratio(own, other);
        let (tau, tau_interval) = (ratio.value()?, ratio.interval());
        let pairs = pair_by_prompt(other, own);
        let (speed, speed_interval) = (speedup(pairs.values()), speedup_interval(&pairs));
        Some(Rival { cell, tau, tau_interval, speed, speed_interval })
    });
    rivals.collect()
}

/// The section with the table of these comparisons; empty if there are none.
pub(super) fn against_rejection(run: &Run) -> Vec<DocBlock> {
    let ratio = |x: Option<f64>, interval: Option<Interval>| {
        let (lo, hi) = ends(interval);
        with_interval(x, lo, hi, 3)
    };
    let rows = rivals(run).into_iter().map(|rival| {
        let tau = ratio(Some(rival.tau), rival.tau_interval);
        let speed = ratio(rival.speed, rival.speed_interval);
        rival.cell.line().into_iter().chain([tau, speed]).collect()
    });
    DocBlock::section(
        "Against rejection sampling",
        "The same drafter, K and sampling with another verifier, prompt by prompt and with \
         common random numbers.",
        &columns(&["τ ratio [95 %]:", "speed ratio [95 %]:"]),
        rows.collect(),
    )
}

/// All that decides what a cell drafts, as text: what two cells must share to be compared.
fn drafts(cell: &Cell) -> String {
    let MethodSpec { drafter, verifier, length, num_speculative_tokens: k, .. } = &cell.method;
    format!("{:?}", (drafter, length, k, cell.goal(), settings_but(VERIFIERS, verifier, cell)))
}

/// The section on the total variation of approximate verifiers from the target; empty if
/// there are none.
pub(super) fn distances(run: &Run) -> Vec<DocBlock> {
    let table = lines(run.drafted(), |cell| {
        let row = &cell.row;
        Some(vec![
            with_interval(Some(row.tv?), row.tv_lo, row.tv_hi, 4),
            number(row.block_efficiency, 2),
            with_interval(row.speedup, row.speedup_lo, row.speedup_hi, 2),
        ])
    });
    DocBlock::section(
        "Distance from the target's distribution",
        "For approximate verifiers: the mean total variation between the distribution of a \
         token, given the tokens before it, and the target's, computed from both \
         distributions and not from draws. Bonus tokens count as 0. The joint distribution of \
         a whole generation of N tokens is, in expectation over its contexts, at most N times \
         as far; over a shorter stretch it can exceed that multiple of the mean.",
        &columns(&["total variation per token [95 %]:", "τ:", "speedup [95 %]:"]),
        table,
    )
}
