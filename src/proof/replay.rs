//! Runs whole generations with the production driver, one outcome after another.

use std::collections::BTreeMap;

use super::draw_log::{DrawFindings, DrawLog};
use super::joint::JointDistribution;
use crate::bugs::{WrapChance, straight};
use crate::core::chance::{Chance, Exhaustive, Request, Seeded};
use crate::core::clock::{VirtualClock, VirtualCosts};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::method::decode::{Generation, NoObserver, Observer, generate};
use crate::model::LanguageModel;

/// The result of a replay.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    /// The joint distribution of all tokens up to `max_tokens`.
    pub dist: JointDistribution,
    /// Number of generations.
    pub paths: usize,
}

/// Replays the fresh `generation` with every outcome of all its rounds, by [`generate`] and without
/// merging states. Only for small cases: the number of paths is exponential in the number of
/// tokens.
///
/// # Errors
/// If a model fails or logits yield no distribution.
pub fn replay(target: &dyn LanguageModel, generation: &Generation<'_>) -> Result<Replay, Error> {
    let mut chance = Exhaustive::default();
    let mut found = Replay::default();
    loop {
        let completion = run(target, generation, &mut chance, &mut NoObserver)?;
        *found.dist.entry(completion).or_insert(0.0) += chance.weight();
        found.paths += 1;
        if !chance.advance() {
            return Ok(found);
        }
    }
}

/// The number of occurrences of each completion in `runs` generations with seeded random numbers.
/// Each generation is a separate request.
///
/// # Errors
/// If a model fails or logits yield no distribution.
pub fn sample(
    target: &dyn LanguageModel,
    generation: &Generation<'_>,
    seed: u64,
    runs: u32,
) -> Result<BTreeMap<Vec<Token>, u64>, Error> {
    sample_by(target, generation, seed, runs, straight, &mut NoObserver)
}

/// As [`sample`], with an adapter around the random numbers and an observer.
pub(super) fn sample_by(
    target: &dyn LanguageModel,
    generation: &Generation<'_>,
    seed: u64,
    runs: u32,
    wrap: WrapChance,
    observer: &mut dyn Observer,
) -> Result<BTreeMap<Vec<Token>, u64>, Error> {
    let mut counts = BTreeMap::new();
    for repeat in 0..runs {
        let mut chance = Seeded::new(Request { seed, prompt: SAMPLED, repeat });
        let completion = run(target, generation, &mut *wrap(&mut chance), observer)?;
        *counts.entry(completion).or_insert(0) += 1;
    }
    Ok(counts)
}

/// The first of `runs` requests in which two methods generate different tokens with the same random
/// numbers; none if they always agree.
///
/// # Errors
/// If a model fails or logits yield no distribution.
pub fn first_difference(
    target: &dyn LanguageModel,
    methods: [&Generation<'_>; 2],
    seed: u64,
    runs: u32,
) -> Result<Option<u32>, Error> {
    first_difference_by(target, methods, seed, runs, straight)
}

/// As [`first_difference`], with an adapter around the random numbers of the first method.
pub(super) fn first_difference_by(
    target: &dyn LanguageModel,
    [one, other]: [&Generation<'_>; 2],
    seed: u64,
    runs: u32,
    wrap: WrapChance,
) -> Result<Option<u32>, Error> {
    for repeat in 0..runs {
        let chance = || Seeded::new(Request { seed, prompt: SAMPLED, repeat });
        let completion = run(target, one, &mut *wrap(&mut chance()), &mut NoObserver)?;
        if completion != run(target, other, &mut chance(), &mut NoObserver)? {
            return Ok(Some(repeat));
        }
    }
    Ok(None)
}

/// Audits seeded generations and adds up their reports.
///
/// # Errors
/// If a model fails or logits yield no distribution.
pub fn audit(
    target: &dyn LanguageModel,
    generation: &Generation<'_>,
    seed: u64,
    runs: u32,
) -> Result<DrawFindings, Error> {
    audit_by(target, generation, seed, runs, straight)
}

/// As [`audit`], with an adapter around the audited random numbers.
pub(super) fn audit_by(
    target: &dyn LanguageModel,
    generation: &Generation<'_>,
    seed: u64,
    runs: u32,
    wrap: WrapChance,
) -> Result<DrawFindings, Error> {
    let mut total = DrawFindings::default();
    for repeat in 0..runs {
        let mut chance = DrawLog::new(Seeded::new(Request { seed, prompt: SAMPLED, repeat }));
        run(target, generation, &mut *wrap(&mut chance), &mut NoObserver)?;
        total.add(chance.report());
    }
    Ok(total)
}

/// The prompt id in the requests of this module.
const SAMPLED: &str = "exactness";

fn run(
    target: &dyn LanguageModel,
    generation: &Generation<'_>,
    chance: &mut dyn Chance,
    observer: &mut dyn Observer,
) -> Result<Vec<Token>, Error> {
    let clock = VirtualClock::new(VirtualCosts::default());
    let mut generation = generation.try_clone()?;
    generate(&mut generation, target, chance, &clock, observer)?;
    Ok(generation.new_tokens().to_vec())
}
