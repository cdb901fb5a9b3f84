//! Ratios of acceptance with their uncertainty over prompts.

use std::collections::BTreeMap;

use super::acceptance::Acceptance;
use super::interval::Ratio;
use super::sample::{Sample, acceptance, by_prompt};

/// alpha with its uncertainty; `None` if [`Acceptance::alpha`] is.
pub fn alpha(samples: &[Sample]) -> Option<Ratio> {
    acceptance(samples).alpha()?;
    let prompts = sums(samples).into_values().map(|s| ([s.overlap_sum], [s.forks as f64]));
    Some(Ratio::of(prompts).at_most_one())
}

/// τ with its uncertainty: accepted tokens per round, plus one.
pub fn block_efficiency(samples: &[Sample]) -> Ratio {
    let prompts = sums(samples).into_values();
    Ratio::of(prompts.map(|s| ([s.accepted as f64], [s.rounds as f64]))).plus(1.0)
}

/// TV per token with its uncertainty; `None` if [`Acceptance::tv`] is.
pub fn tv(samples: &[Sample]) -> Option<Ratio> {
    acceptance(samples).tv()?;
    let prompts = sums(samples).into_values();
    let prompts = prompts.map(|s| ([s.distances.0], [(s.accepted + s.rounds) as f64]));
    Some(Ratio::of(prompts).at_most_one())
}

/// τ of `cell` ÷ τ of `other` on the prompts that both have. The two sides are paired by
/// prompt, so the difficulty of a prompt does not widen the interval.
pub fn block_efficiency_ratio(cell: &[Sample], other: &[Sample]) -> Ratio {
    let others = sums(other);
    let both = sums(cell).into_iter().filter_map(|(p, own)| Some((own, *others.get(p)?)));
    let tokens = |s: Acceptance| (s.accepted + s.rounds) as f64;
    Ratio::of(both.map(|(own, other)| {
        ([tokens(own), other.rounds as f64], [own.rounds as f64, tokens(other)])
    }))
}

/// Target passes of beam searches ÷ rows that they used, which is the number of passes without
/// drafts, with its uncertainty. `None` without beam searches.
pub fn passes_per_row(samples: &[Sample]) -> Option<Ratio> {
    let sums = |samples: Vec<&Sample>| {
        let rows =
            samples.iter().filter_map(|s| s.beam.as_ref()).map(|beam| beam.rows).sum::<usize>();
        let passes = samples.iter().map(|s| s.target_forwards).sum::<usize>();
        ([passes as f64], [rows as f64])
    };
    samples.iter().all(|sample| sample.beam.is_some()).then_some(())?;
    (!samples.is_empty()).then(|| Ratio::of(by_prompt(samples).into_values().map(sums)))
}

fn sums(samples: &[Sample]) -> BTreeMap<&str, Acceptance> {
    let prompts = by_prompt(samples).into_iter();
    prompts.map(|(prompt, samples)| (prompt, acceptance(samples))).collect()
}
