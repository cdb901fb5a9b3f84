//! Forecasts compared with the measurements of a run, prompt by prompt.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde::Serialize;

use super::cells::{ForecastCell, compared};
use crate::core::sampling::SamplingParams;
use crate::measure::statistics::{
    CountedRound, MIN_PROMPTS, Sample, WIDE_Z, pair_by_prompt, speedup,
};
use crate::run::experiment::{Cell, PlannedModel};
use crate::run::report::{CellView, Run};
use crate::tapes::tape::{Tape, TapeDrafter, TapeModel};

/// A cell of a run with its forecast. `docs/tape.md` describes the columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[allow(missing_docs)]
pub struct ForecastGap {
    pub cell: String,
    #[serde(flatten)]
    pub sampling: SamplingParams,
    pub drafter: String,
    pub params: String,
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
    pub compared: Option<usize>,
    pub differing: Option<usize>,
    pub forecast_speedup: Option<f64>,
    pub measured_speedup: Option<f64>,
}

/// Compares the forecasts of τ with the measurements of a run, for its cells with chains of a fixed
/// K.
///
/// # Errors
/// If the run has another target, or no such cell.
pub fn gaps(tape: &Tape, cells: &[ForecastCell], run: &Run) -> Result<Vec<ForecastGap>> {
    let target = &tape.header.target;
    if !same(target, &run.plan.target) {
        bail!(
            "the sequences of the tape are from {}, and those of the run from {}",
            target.name,
            run.plan.target.name
        );
    }
    let mut found = Vec::new();
    for cell in run.cells.iter().filter(|cell| !cell.control && cell.beam.is_none()) {
        let forecast = cells.iter().find(|own| is_of(tape, own, cell, run));
        found.extend(forecast.and_then(|forecast| gap(tape, forecast, cell, run)));
    }
    if found.is_empty() {
        bail!("the run has no cell with a drafter of the tape, a fixed K and a rule for chains");
    }
    Ok(found)
}

/// Whether a forecast belongs to a cell.
fn is_of(tape: &Tape, own: &ForecastCell, cell: &Cell, run: &Run) -> bool {
    let method = &cell.method;
    let drafter = &tape.drafters[own.config.drafter];
    own.config.tree.is_none()
        && method.drafter == drafter.drafter
        && method.length == drafter.length.as_deref().unwrap_or("fixed")
        && method.verifier == own.config.rule.verifier()
        && method.num_speculative_tokens == own.config.k
        && method.sampling == tape.header.samplings[own.config.sampling]
        && draft_is(drafter, run.plan.draft.as_ref())
        // Rules for chains have no settings of their own.
        && drafter.params == method.params
}

fn same(tape: &TapeModel, plan: &PlannedModel) -> bool {
    (&tape.sha256, &tape.dtype, &tape.engine) == (&plan.sha256, &plan.dtype, &plan.engine)
}

fn draft_is(drafter: &TapeDrafter, plan: Option<&PlannedModel>) -> bool {
    drafter.model.as_ref().is_none_or(|model| plan.is_some_and(|plan| same(model, plan)))
}

fn gap(tape: &Tape, own: &ForecastCell, cell: &CellView, run: &Run) -> Option<ForecastGap> {
    let samples = &cell.samples;
    let extent = Extent::of(tape, own, run);
    let names = tape.sequences.iter().map(|sequence| sequence.prompt.as_str());
    let originals = names.zip(tape.originals()).collect::<BTreeMap<_, _>>();
    let mut prompts = BTreeMap::<_, Vec<&Sample>>::new();
    for sample in samples {
        let original = originals.get(&*sample.prompt).copied();
        prompts.entry(original.unwrap_or(&sample.prompt)).or_default().push(sample);
    }
    let both = prompts.into_iter().filter_map(|(prompt, samples)| {
        let [forecast, measured] = [extent.forecast(tape, own, prompt)?, extent.measured(samples)];
        Some([forecast, measured].map(|[accepted, rounds]| [accepted + rounds, rounds]))
    });
    let prompts = both.collect::<Vec<_>>();
    let [forecast, measured, ratio] = compared(&prompts);
    let interval = ratio.interval_of(MIN_PROMPTS, WIDE_Z);
    let greedy = cell.method.sampling.is_greedy();
    let texts = greedy.then(|| extent.differing(tape, own, samples));
    // The times of a part of the rounds are not known.
    let of_whole = |of: &dyn Fn() -> Option<f64>| extent.limit.is_none().then(of).flatten();
    Some(ForecastGap {
        cell: cell.id.clone(),
        sampling: cell.method.sampling.clone(),
        drafter: cell.method.drafter.clone(),
        params: cell.method.params.words(),
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
        compared: texts.map(|[compared, _]| compared),
        differing: texts.map(|[_, differing]| differing),
        forecast_speedup: of_whole(&|| own.speedup(0)?.value()),
        measured_speedup: of_whole(&|| {
            speedup(pair_by_prompt(run.baseline(cell), samples).values())
        }),
    })
}

/// Which rounds of the tape and of the run are comparable.
struct Extent {
    /// The smaller maximum of tokens, if sequences and generations have different ones: it cuts
    /// drafts of the one and not of the other.
    limit: Option<usize>,
    k: usize,
}

impl Extent {
    fn of(tape: &Tape, own: &ForecastCell, run: &Run) -> Self {
        let all = tape.sequences.iter().map(|sequence| sequence.max_tokens);
        let all = all.chain([run.plan.max_tokens]);
        let (least, most) = (all.clone().min(), all.max());
        Self { limit: least.filter(|_| least != most), k: own.config.k }
    }

    /// Whether it has the rounds that begin at this token.
    fn has(&self, start: usize) -> bool {
        self.limit.is_none_or(|limit| start + self.k < limit)
    }

    /// Expected accepted tokens and rounds of a prompt; none if the tape does not have it.
    fn forecast(&self, tape: &Tape, own: &ForecastCell, prompt: &str) -> Option<[f64; 2]> {
        let all = own.prompts.get(prompt)?;
        if self.limit.is_none() {
            return Some([all.accepted, all.rounds]);
        }
        let of_prompt = |&number: &usize, original: &str| {
            original == prompt && tape.sequences[number].sampling == own.config.sampling
        };
        let all = tape.originals().into_iter().enumerate();
        let mut sums = [0.0; 2];
        for (number, _) in all.filter(|(number, original)| of_prompt(number, original)) {
            let Some(odds) = tape.odds(own.config.drafter, number) else { continue };
            for (start, [begins, accepted]) in odds.by_start(own.config.rule, own.config.k) {
                if self.has(start) {
                    sums = [sums[0] + begins * accepted, sums[1] + begins];
                }
            }
        }
        Some(sums)
    }

    /// Accepted tokens and rounds of some generations.
    fn measured<'s>(&self, samples: impl IntoIterator<Item = &'s Sample>) -> [f64; 2] {
        let mut sums = [0; 2];
        for (start, round) in samples.into_iter().flat_map(starts) {
            if self.has(start) {
                sums = [sums[0] + round.accepted, sums[1] + 1];
            }
        }
        sums.map(|sum| sum as f64)
    }

    /// The number of generations of which the tape has the sequence, and how many of them have other
    /// rounds or accepted tokens than the forecast, at temperature 0, where nothing is random.
    fn differing(&self, tape: &Tape, own: &ForecastCell, samples: &[Sample]) -> [usize; 2] {
        let mut sequences = BTreeMap::new();
        for (number, sequence) in tape.sequences.iter().enumerate() {
            if sequence.sampling == own.config.sampling {
                sequences.insert((&*sequence.prompt, sequence.repeat), number);
            }
        }
        let mut found = [0; 2];
        for sample in samples {
            let number = sequences.get(&(&*sample.prompt, sample.repeat));
            let Some(odds) = number.and_then(|&n| tape.odds(own.config.drafter, n)) else {
                continue;
            };
            let forecast = odds.by_start(own.config.rule, own.config.k).into_iter();
            let forecast = forecast.filter(|(_, [begins, _])| *begins > 0.0);
            let forecast = forecast.map(|(start, [_, accepted])| (start, accepted));
            let measured = starts(sample).map(|(start, round)| (start, round.accepted as f64));
            let same = forecast.filter(|r| self.has(r.0)).eq(measured.filter(|r| self.has(r.0)));
            found = [found[0] + 1, found[1] + usize::from(!same)];
        }
        found
    }
}

/// The rounds of a generation, each with the number of its first token.
fn starts(sample: &Sample) -> impl Iterator<Item = (usize, CountedRound)> {
    let mut next = 0;
    sample.rounds.iter().map(move |round| {
        next += round.emitted;
        (next - round.emitted, round)
    })
}
