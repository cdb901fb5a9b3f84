//! The calibration: what passes and bookkeeping cost here, measured before the
//! sweep, so that predicted speedups can be wrong.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};

use super::blocks::Block;
use super::cell::{Calibration, CellCosts};
use super::generation::one;
use super::passes::{quantile, target_passes};
use super::records::RoundRow;
use super::run::Bench;
use crate::dist::Token;

/// The longest context at which passes are timed.
const CALIBRATION_CONTEXT: usize = 64;

/// Warms every cell up with the very function that will be timed and keeps the
/// warm-up's costs, then times the target's passes of as many rows as occurred.
pub(super) fn calibrate(bench: &Bench<'_>, prompts: &[Vec<Token>]) -> Result<Calibration> {
    let plan = bench.plan;
    let mut costs = BTreeMap::new();
    let mut most = plan.cells.iter().map(|cell| cell.num_speculative_tokens).max().unwrap_or(0);
    for cell in &plan.cells {
        let mut rounds = Vec::new();
        for i in 0..plan.warmup {
            let at = i as usize % prompts.len();
            let prompt = &bench.prompts[at];
            let block =
                Block { number: 0, prompt, tokens: &prompts[at], repeat: 0, cells: vec![cell] };
            // A failure here will be recorded when the cell's turn comes.
            if let Ok(done) = one(bench, cell, &block) {
                rounds.extend(done.rounds);
            }
            if bench.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted before the first block");
            }
        }
        most = rounds.iter().map(|round| round.proposed).fold(most, usize::max);
        costs.insert(cell.id.clone(), cell_costs(&rounds));
    }
    let longest = prompts.iter().max_by_key(|tokens| tokens.len()).context("there is no prompt")?;
    let context = &longest[..longest.len().min(CALIBRATION_CONTEXT)];
    let calibration = target_passes(bench.target, context, most + 1, bench.clock)?;
    Ok(Calibration { cells: costs, ..calibration })
}

/// The medians of a cell's warm-up rounds.
pub(super) fn cell_costs(rounds: &[RoundRow]) -> CellCosts {
    let median = |values: Vec<f64>| quantile(&values, 0.5).unwrap_or(0.0);
    CellCosts {
        draft_us_per_token: median(
            rounds
                .iter()
                .filter(|r| r.proposed > 0)
                .map(|r| r.draft_us / r.proposed as f64)
                .collect(),
        ),
        verify_us: median(rounds.iter().map(|r| r.verify_us).collect()),
        other_us: median(rounds.iter().map(|r| r.other_us).collect()),
    }
}
