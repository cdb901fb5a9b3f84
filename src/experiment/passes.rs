//! What passes of the target cost by the number of their rows: T(n).

use std::time::Duration;

use anyhow::{Result, anyhow};

use super::cell::Calibration;
use super::prompts::Prompt;
use super::recorder::micros;
use crate::clock::{Clock, RealClock, Who};
use crate::dist::Token;
use crate::model::{Codec, LanguageModel, Want, Work, evaluate_one};
use crate::tree::Draft;

/// Samples of T(n) for each n, taken in turns so that drift hits all alike.
const SAMPLES: usize = 15;

/// Measures T(n) for n = 1 to `max_rows` after `context`.
///
/// # Errors
/// If the target fails.
pub(super) fn target_passes(
    target: &dyn LanguageModel,
    context: &[Token],
    max_rows: usize,
    clock: &dyn Clock,
) -> Result<Calibration> {
    let mut session = target.session()?;
    let drafts = (0..max_rows).map(|k| chain(target, context, k)).collect::<Vec<_>>();
    let mut samples = vec![Vec::with_capacity(SAMPLES); max_rows];
    // The first turn fills the cache and warms up; it is not counted.
    for turn in 0..=SAMPLES {
        for (rows, draft) in drafts.iter().enumerate() {
            // As in a run, a pass follows one of its kind: the first of two
            // finds what another kind left in the caches and is not counted.
            for counts in [false, turn > 0] {
                // Every pass computes its rows again: the last context token and
                // all nodes, none of which is left from the pass before.
                session.settle(&context[..context.len() - 1])?;
                let start = clock.now();
                let work = Work { session: &mut session, context, draft, want: Want::All };
                let computed = evaluate_one(target, work)?.computed;
                clock.forward(Who::Target, computed);
                if counts {
                    samples[rows].push(micros(clock.now() - start));
                }
            }
        }
    }
    let quartile = |s: &Vec<f64>, q| quantile(s, q).ok_or_else(|| anyhow!("no samples"));
    Ok(Calibration {
        context_tokens: context.len(),
        target_us: samples.iter().map(|s| quartile(s, 0.5)).collect::<Result<_>>()?,
        target_iqr_us: samples
            .iter()
            .map(|s| Ok(quartile(s, 0.75)? - quartile(s, 0.25)?))
            .collect::<Result<_>>()?,
        cells: Default::default(),
    })
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

/// The quantile by the nearest rank; `None` of nothing.
pub(super) fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (q * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(rank).copied()
}

/// The median time of a single-row pass, for estimates.
///
/// # Errors
/// If the first prompt cannot be encoded or the target fails.
pub fn pass_time(
    target: &dyn LanguageModel,
    codec: &dyn Codec,
    prompts: &[Prompt],
) -> Result<Duration> {
    let tokens =
        codec.encode(&prompts.first().ok_or_else(|| anyhow!("there is no prompt"))?.text)?;
    let calibration = target_passes(target, &tokens, 1, &RealClock::default())?;
    Ok(Duration::from_secs_f64(calibration.target_us[0].max(1e-3) / 1e6))
}
