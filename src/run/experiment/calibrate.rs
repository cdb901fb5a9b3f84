//! The calibration: the costs of passes and bookkeeping on this machine, measured before
//! the sweep, so that calibrated speedups do not depend on measured ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

use super::blocks::{Block, BlockText};
use super::cell::{Cell, Plan};
use super::generation::{TextModels, generations};
use super::passes::{TURNS, target_passes};
use super::progress::RunProgress;
use super::setup::Setup;
use crate::core::distribution::Token;
use crate::core::tree::MAX_NODES;
use crate::measure::rows::RoundRow;
use crate::measure::rows::{Calibration, CellCosts};
use crate::measure::statistics::median;
use crate::model::LanguageModel;

/// The longest context at which passes are timed, in tokens.
const CALIBRATION_CONTEXT: usize = 64;

/// The largest number of row counts for which passes are timed; T(n) in between is
/// interpolated.
const MOST_COUNTS: usize = 16;

type WarmUp = Vec<RoundRow>;

/// Warms every cell up with the same function that the sweep times, keeps the costs of
/// these warm-ups, and then times target passes for the row counts that can occur. Cells of
/// other `goals` (by their places in the plan) are left out.
///
/// # Errors
/// If the target fails, or if the run is interrupted.
pub(super) fn calibrate(setup: &Setup<'_>, goals: &BTreeSet<usize>) -> Result<Calibration> {
    let plan = setup.plan;
    let of_plan = plan.goals().into_iter().enumerate();
    let of_plan = of_plan.filter(|(goal, _)| goals.contains(goal)).map(|(_, cells)| cells);
    let of_plan = of_plan.collect::<Vec<_>>();
    let cells = of_plan.iter().flatten().copied().collect::<Vec<_>>();
    let mut steps = Steps::new(setup, cells.len() * plan.warmup as usize);
    let mut warm_ups = BTreeMap::<&str, Vec<WarmUp>>::new();
    // Cells take turns, so that a short disturbance hits one warm-up of each cell and not
    // all warm-ups of a few.
    for turn in 0..plan.warmup as usize {
        for cells in &of_plan {
            let asked = (turn..turn + cells[0].batch).map(|at| at % setup.prompts.len());
            let text = |at: usize| BlockText {
                prompt: &setup.prompts[at],
                tokens: &setup.tokens[plan.first_tokens(cells[0]) + at],
                repeat: 0,
            };
            let block = Block { number: 0, texts: asked.map(text).collect(), cells: cells.clone() };
            let models = TextModels::of(setup, &block);
            for cell in &block.cells {
                // A failure is ignored here: the sweep records it when the cell fails again.
                let done = generations(setup, &models, cell, &block).into_iter().flatten();
                warm_ups.entry(&cell.id).or_default().extend(done.map(|done| done.rounds));
                steps.done("warm-up")?;
            }
        }
    }
    let counts = row_counts(plan, &cells, warm_ups.values().flatten().flatten());
    let context = calibration_context(setup)?;
    steps.progress.more(TURNS * counts.len());
    let step = || steps.done("target passes");
    let passes = target_passes(setup.target, context, &counts, setup.clock, TURNS, step)?;
    drop(steps);
    let cells = warm_ups.into_iter();
    let cells = cells.filter_map(|(id, warm_ups)| Some((id.to_owned(), cell_costs(&warm_ups)?)));
    let models = [("target", Some(setup.target)), ("draft", setup.draft)];
    let threads = models.into_iter().filter_map(|(name, model)| Some((name, model?)));
    Ok(Calibration {
        context_tokens: context.len(),
        passes,
        threads: threads.map(|(name, model)| (name.to_owned(), threads_of(model))).collect(),
        cells: cells.collect(),
    })
}

/// The context at which passes are timed: the beginning of the longest prompt.
pub(super) fn calibration_context<'a>(setup: &Setup<'a>) -> Result<&'a [Token]> {
    let longest = setup.tokens.iter().max_by_key(|tokens| tokens.len());
    let longest = longest.context("there is no prompt")?;
    Ok(&longest[..longest.len().min(CALIBRATION_CONTEXT)])
}

/// The number of threads of a model's passes, where it changes.
fn threads_of(model: &dyn LanguageModel) -> BTreeMap<usize, usize> {
    let mut last = None;
    let changes = (1..=MAX_NODES + 1).filter_map(|rows| {
        let threads = model.threads(rows);
        (last.replace(threads) != Some(threads)).then_some((rows, threads))
    });
    changes.collect()
}

/// The progress of the calibration.
struct Steps<'a> {
    progress: RunProgress,
    interrupted: &'a AtomicBool,
}

impl<'a> Steps<'a> {
    fn new(setup: &Setup<'a>, number: usize) -> Self {
        let progress = RunProgress::new("calibration steps", number, 0);
        Self { progress, interrupted: setup.interrupted }
    }

    /// Counts one step as done; fails if the run was interrupted.
    fn done(&mut self, what: &str) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted in the calibration: this session has measured nothing");
        }
        self.progress.advance(what);
        Ok(())
    }
}

/// The row counts for which T is timed: those of plain decoding, of a full draft of each
/// cell, and of the rounds of the warm-ups; if there are too many, an evenly spread part
/// of them. No draft is longer than the tokens that may still be emitted, less the bonus
/// token.
fn row_counts<'a>(
    plan: &Plan,
    cells: &[&Cell],
    rounds: impl Iterator<Item = &'a RoundRow>,
) -> Vec<usize> {
    let longest = plan.max_tokens.saturating_sub(1);
    let whole = cells.iter().map(|cell| cell.method.num_speculative_tokens.min(longest));
    let drafts = whole.chain(rounds.map(|round| round.proposed)).chain([0]);
    let counts = drafts.map(|tokens| tokens + 1).collect::<BTreeSet<_>>();
    let counts = counts.into_iter().collect::<Vec<_>>();
    if counts.len() <= MOST_COUNTS {
        return counts;
    }
    let gaps = MOST_COUNTS - 1;
    (0..=gaps).map(|i| counts[i * (counts.len() - 1) / gaps]).collect()
}

/// The costs of a cell's rounds, from its warm-ups; `None` without a round.
fn cell_costs(warm_ups: &[WarmUp]) -> Option<CellCosts> {
    let cost = |of: fn(&RoundRow) -> Option<f64>| {
        let each = warm_ups.iter().map(|rounds| rounds.iter().filter_map(of).collect::<Vec<_>>());
        each.filter_map(|values| median(&values)).collect::<Vec<_>>()
    };
    let typical = |of| median(&cost(of));
    Some(CellCosts {
        draft_us_per_token: typical(|r| (r.proposed > 0).then(|| r.draft_us / r.proposed as f64)),
        verify_us: typical(|r| Some(r.verify_us))?,
        other_us: typical(|r| Some(r.other_us))?,
        spread: spread(&cost(|r| Some(r.draft_us + r.target_us + r.verify_us + r.other_us))),
    })
}

/// Largest ÷ smallest of several times; `None` for fewer than two.
fn spread(times: &[f64]) -> Option<f64> {
    let largest = times.iter().copied().reduce(f64::max)?;
    let smallest = times.iter().copied().reduce(f64::min)?;
    (times.len() > 1 && smallest > 0.0).then_some(largest / smallest)
}
