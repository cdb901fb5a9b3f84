//! The cost of a target pass by its number of rows, T(n).

use std::time::Duration;

use anyhow::{Result, anyhow};

use super::recorder::micros;
use crate::core::clock::{Clock, RealClock, Who};
use crate::core::distribution::Token;
use crate::core::tree::Draft;
use crate::measure::rows::PassCost;
use crate::measure::statistics::quantile;
use crate::model::{LanguageModel, Session, Want, Work, evaluate_one};

/// The number of turns before the sweep; each turn times a pass of every row count. The first turn fills
/// the caches and is not counted.
pub(super) const TURNS: usize = 16;

/// The number of turns that are taken even if they take longer than [`ENOUGH`].
const LEAST_TURNS: usize = 6;

/// The time after which no further turn begins.
const ENOUGH: Duration = Duration::from_secs(10);

/// Measures T(n) for each n in `counts` after `context`, in `turns` turns, so that drift affects
/// all of them alike. `step` is called after every sample, including those of the first
/// turn.
pub(super) fn target_passes(
    target: &dyn LanguageModel,
    context: &[Token],
    counts: &[usize],
    clock: &dyn Clock,
    turns: usize,
    mut step: impl FnMut() -> Result<()>,
) -> Result<Vec<PassCost>> {
    let mut session = target.session()?;
    let drafts = counts.iter().map(|rows| chain(target, context, rows - 1)).collect::<Vec<_>>();
    let mut samples = vec![Vec::with_capacity(turns); counts.len()];
    let start = clock.now();
    for turn in 0..turns {
        if turn >= LEAST_TURNS && clock.now() - start > ENOUGH {
            break;
        }
        for (draft, samples) in drafts.iter().zip(&mut samples) {
            // In a run, a pass follows one with the same row count. The first of these
            // two passes finds the caches as another row count left them, so only the
            // second counts.
            pass(target, &mut session, context, draft, clock)?;
            let us = pass(target, &mut session, context, draft, clock)?;
            if turn > 0 {
                samples.push(us);
            }
            step()?;
        }
    }
    let costs = counts.iter().zip(samples).map(|(&rows, samples)| cost(rows, samples));
    costs.collect::<Option<_>>().ok_or_else(|| anyhow!("no samples"))
}

/// Times one pass over `draft`, in µs: it computes the last context token and all nodes,
/// because the session is first rewound to before them.
fn pass(
    target: &dyn LanguageModel,
    session: &mut Session,
    context: &[Token],
    draft: &Draft,
    clock: &dyn Clock,
) -> Result<f64> {
    session.rewind(&context[..context.len() - 1])?;
    let start = clock.now();
    let work = Work { session, context, draft, want: Want::All };
    let computed = evaluate_one(target, work)?.computed;
    clock.forward(Who::Target, computed);
    Ok(micros(clock.now() - start))
}

fn cost(rows: usize, mut samples: Vec<f64>) -> Option<PassCost> {
    samples.sort_by(f64::total_cmp);
    let at = |p| quantile(&samples, p);
    Some(PassCost { rows, us: at(0.5)?, iqr_us: at(0.75)? - at(0.25)?, samples: samples.len() })
}

/// A chain of `k` tokens taken from the context.
fn chain(target: &dyn LanguageModel, context: &[Token], k: usize) -> Draft {
    let mut draft = Draft::empty(target.info().vocab);
    let mut parent = None;
    for i in 0..k {
        parent = Some(draft.certain(parent, context[i % context.len()]));
    }
    draft
}

/// The median time of a single-row pass, for estimates.
///
/// # Errors
/// If the target fails.
pub fn pass_time(target: &dyn LanguageModel, prompt: &[Token]) -> Result<Duration> {
    let passes = target_passes(target, prompt, &[1], &RealClock::default(), TURNS, || Ok(()))?;
    Ok(Duration::from_secs_f64(passes[0].us.max(1e-3) / 1e6))
}
