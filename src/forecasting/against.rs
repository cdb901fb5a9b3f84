//! Forecasts compared with the measurements of a run, prompt by prompt.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde::Serialize;

use super::cells::{ForecastCell, compared};
use crate::experiment::{Cell, PlannedModel};
use crate::report::Results;
use crate::sampling::SamplingParams;
use crate::statistics::{MIN_PROMPTS, Sample, WIDE_Z, acceptance};
use crate::tape::{Tape, TapeDrafter, TapeModel};

/// A cell of a run with its forecast. `docs/tape.md` describes the columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[allow(missing_docs)]
pub struct ForecastGap {
    pub cell: String,
    #[serde(flatten)]
    pub sampling: SamplingParams,
    pub drafter: String,
    pub verifier: String,
    pub num_speculative_tokens: usize,
    pub prompts: usize,
    pub forecast: f64,
    pub measured: f64,
    pub ratio: f64,
    pub ratio_lo99: Option<f64>,
    pub ratio_hi99: Option<f64>,
    pub inside: Option<bool>,
    pub texts: usize,
    pub differing: Option<usize>,
    pub forecast_speedup: Option<f64>,
    pub measured_speedup: Option<f64>,
}

/// Compares the forecasts of τ with the measurements of a run, for its cells with chains of a fixed
/// K.
///
/// # Errors
/// If the run has another target, or no such cell.
pub fn gaps(tape: &Tape, cells: &[ForecastCell], results: &Results) -> Result<Vec<ForecastGap>> {
    let target = &tape.header.target;
    if !same(target, &results.plan.target) {
        bail!(
            "the sequences of the tape are from {}, and those of the run from {}",
            target.name,
            results.plan.target.name
        );
    }
    let mut found = Vec::new();
    for cell in results.plan.cells.iter().filter(|cell| !cell.control && cell.beam.is_none()) {
        let forecast = cells.iter().find(|own| is_of(tape, own, cell, results));
        found.extend(forecast.and_then(|forecast| gap(tape, forecast, cell, results)));
    }
    if found.is_empty() {
        bail!("the run has no cell with a drafter of the tape, a fixed K and a rule for chains");
    }
    Ok(found)
}

/// Whether a forecast belongs to a cell.
fn is_of(tape: &Tape, own: &ForecastCell, cell: &Cell, results: &Results) -> bool {
    let method = &cell.method;
    let drafter = &tape.drafters[own.config.drafter];
    own.config.tree.is_none()
        && method.drafter == drafter.drafter
        && method.length == drafter.length.as_deref().unwrap_or("fixed")
        && method.verifier == own.config.rule.verifier()
        && method.num_speculative_tokens == own.config.k
        && method.sampling == tape.header.samplings[own.config.sampling]
        && draft_is(drafter, results.plan.draft.as_ref())
        // Rules for chains have no settings of their own.
        && drafter.params == method.params
}

fn same(tape: &TapeModel, plan: &PlannedModel) -> bool {
    (&tape.sha256, &tape.dtype, &tape.engine) == (&plan.sha256, &plan.dtype, &plan.engine)
}

fn draft_is(drafter: &TapeDrafter, plan: Option<&PlannedModel>) -> bool {
    drafter.model.as_ref().is_none_or(|model| plan.is_some_and(|plan| same(model, plan)))
}

fn gap(tape: &Tape, own: &ForecastCell, cell: &Cell, results: &Results) -> Option<ForecastGap> {
    let samples = results.samples(&cell.id);
    let names = tape.sequences.iter().map(|sequence| sequence.prompt.as_str());
    let originals = names.zip(tape.originals()).collect::<BTreeMap<_, _>>();
    let mut prompts = BTreeMap::<_, Vec<&Sample>>::new();
    for sample in samples {
        let original = originals.get(&*sample.prompt).copied();
        prompts.entry(original.unwrap_or(&sample.prompt)).or_default().push(sample);
    }
    let both = prompts.into_iter().filter_map(|(prompt, samples)| {
        let (forecast, measured) = (own.prompts.get(prompt)?, acceptance(samples));
        let tokens = |accepted: f64, rounds: f64| [accepted + rounds, rounds];
        let forecast = tokens(forecast.accepted, forecast.rounds);
        Some([forecast, tokens(measured.accepted as f64, measured.rounds as f64)])
    });
    let prompts = both.collect::<Vec<_>>();
    let [forecast, measured, ratio] = compared(&prompts);
    let interval = ratio.interval_of(MIN_PROMPTS, WIDE_Z);
    Some(ForecastGap {
        cell: cell.id.clone(),
        sampling: cell.method.sampling,
        drafter: cell.method.drafter.clone(),
        verifier: cell.method.verifier.clone(),
        num_speculative_tokens: own.config.k,
        prompts: prompts.len(),
        forecast: forecast.value()?,
        measured: measured.value()?,
        ratio: ratio.value()?,
        ratio_lo99: interval.map(|interval| interval.lo),
        ratio_hi99: interval.map(|interval| interval.hi),
        inside: interval.map(|interval| interval.lo <= 1.0 && 1.0 <= interval.hi),
        texts: samples.len(),
        differing: cell.method.sampling.is_greedy().then(|| differing(tape, own, samples)),
        forecast_speedup: own.speedup(0).and_then(|speedup| speedup.value()),
        measured_speedup: crate::statistics::speedup(
            crate::statistics::pair_by_prompt(results.baseline(cell), samples).values(),
        ),
    })
}

/// Number of generations whose rounds or accepted tokens differ from the forecast, at temperature
/// 0, where nothing is random.
fn differing(tape: &Tape, own: &ForecastCell, samples: &[Sample]) -> usize {
    let mut sequences = BTreeMap::new();
    for (number, sequence) in tape.sequences.iter().enumerate() {
        if sequence.sampling == own.config.sampling {
            sequences.insert((&*sequence.prompt, sequence.repeat), number);
        }
    }
    let differs = |sample: &&Sample| {
        let number = sequences.get(&(&*sample.prompt, sample.repeat));
        let odds = number.and_then(|&number| tape.odds(own.config.drafter, number));
        let found = odds.map(|odds| odds.forecast(own.config.rule, own.config.k));
        // Tokens that the verifier kept after an end token are not part of the completion.
        let kept = sample.rounds.iter().map(|round| round.accepted.min(round.emitted));
        let measured = (sample.rounds.len() as f64, kept.sum::<usize>() as f64);
        found.is_none_or(|found| (found.rounds, found.accepted) != measured)
    };
    samples.iter().filter(differs).count()
}
