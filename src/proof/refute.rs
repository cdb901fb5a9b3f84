//! The named checks, and which of them refute a method.

use std::rc::Rc;

use serde::Serialize;

use super::bits::unfair_bit;
#[cfg(feature = "engine")]
use super::cache_clones::clones_continue;
use super::closed::ChainCase;
use super::enumerate::walk;
use super::joint::{Gap, off, target_distribution};
use super::monte_carlo::Fit;
use super::probe::{DraftDistributions, TargetRows};
use super::reference::{draft_model, draft_rows};
use super::replay::{audit_by, first_difference_by, sample_by};
use crate::bugs::{Bug, CaseModels, Mutant, PROMPT};
use crate::core::error::Error;
use crate::core::params::Params;
use crate::core::sampling::Sampler;
use crate::method::decode::{Generation, Method, NoObserver, StopRules};
use crate::method::draft::{DrafterParams, NoDraft, Tools};
use crate::method::length::Fixed;
use crate::model::{LanguageModel, ToyPair, zoo};

/// The checks in the order of the kill matrix, each with what it compares.
pub const CHECKS: &[(&str, &str)] = &[
    ("first_token", "the distribution of the first token alone"),
    ("joint", "the joint distribution of at least K + 2 tokens"),
    ("out_of_support", "mass on text that the target never yields"),
    ("expected_length", "E[L] of the first round against its closed form"),
    ("target_rows", "the target's rows against fresh ones"),
    ("draft_tokens", "the distribution of each draft token against the recorded one"),
    ("draw_addresses", "every address of the generator drawn once"),
    ("goodness_of_fit", "seeded generations against the distribution, by Pearson's test"),
    ("same_tokens", "class P: the tokens of plain decoding with the same seed"),
    ("uniform_bits", "the seeded uniforms, bit by bit: all 53 are fair"),
    ("forked_rows", "a forked sequence of the CPU engine against the one it comes from"),
];

/// The checks' verdict on a mutant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MutantReport {
    /// Its name.
    pub name: &'static str,
    /// The mistake in one sentence.
    pub imitates: &'static str,
    /// The checks that refute it; if there are none, the suite is too weak.
    pub killed_by: Vec<&'static str>,
    /// Total variation of the first token's distribution.
    pub tv_first_token: f64,
    /// Total variation of the joint distribution.
    pub tv_joint: f64,
    /// Total variation of the first token's distribution on paper, where it is known.
    #[serde(skip)]
    pub on_paper: Option<f64>,
}

/// Generations per goodness-of-fit test: enough to detect a total variation of 0.03.
const RUNS: u32 = 40_000;
/// Fixed before the first run, like every seed here.
const SEED: u64 = 2026;
/// Tokens and generations per audit.
const AUDITED: (usize, u32) = (12, 20);
/// Generations whose tokens are compared.
const COMPARED: u32 = 20;

/// Runs every check on the mutant of a bug.
///
/// # Errors
/// If the mutant cannot run at all, which does not refute it.
pub fn refute(bug: &Bug, mutant: &Mutant) -> Result<MutantReport, Error> {
    let case = &mutant.case;
    let pair = match case.pair {
        CaseModels::Toy(name) => zoo::toy(name)?,
        CaseModels::Distributions(p, q) => ToyPair::context_free(p, q),
    };
    let right = pair.target("target")?;
    let rows_of_draft = draft_rows(&pair)?;
    let draft = mutant.draft.unwrap_or(draft_model)(&pair, &right)?;
    let target = mutant.target.unwrap_or(|toy| Box::new(toy))(right.clone());
    let [requested, recorded] = case.sampling();
    let (requested, recorded) = (Sampler::new(requested)?, Sampler::new(recorded)?);
    let generation = |tokens| begin(mutant, &*target, &*draft, &recorded, tokens);

    let mut rows = TargetRows::new(&right);
    let mut dists = DraftDistributions::default();
    let probes = &mut [&mut rows as _, &mut dists as _];
    let found = walk(&*target, generation(case.tokens)?, probes, mutant.walked)?;
    let dist = target_distribution(&right, &requested, PROMPT, case.tokens)?;
    let gap = Gap::between(&found.dist, &dist);

    let chain = ChainCase {
        target: &right,
        target_sampler: &requested,
        draft: &*rows_of_draft,
        draft_sampler: &recorded,
        prompt: PROMPT,
    };
    let expected = case.rule.map(|rule| chain.expected_emitted(rule, case.k)).transpose()?;
    let too_slow = expected.is_some_and(|length| off((found.tally.first_emitted - length).abs()));
    let audited = generation(AUDITED.0)?;
    let repeats = audit_by(&*target, &audited, SEED, AUDITED.1, mutant.seeded)?.repeated;
    let misfit = case.seeded && {
        let generation = generation(case.tokens)?;
        let counts = sample_by(&*target, &generation, SEED, RUNS, mutant.seeded, &mut NoObserver)?;
        !Fit::test(&counts, &dist).is_plausible()
    };
    let strays = mutant.verifier.coupling().is_some() && {
        let plain = Mutant { drafter: |_| Ok(Box::new(NoDraft)), ..*mutant };
        let plain = begin(&plain, &*target, &*draft, &recorded, AUDITED.0)?;
        let pair = [&audited, &plain];
        first_difference_by(&*target, pair, SEED, COMPARED, mutant.seeded)?.is_some()
    };
    #[cfg(feature = "engine")]
    let forks_differ = case.engine && !clones_continue(mutant.cache)?;
    #[cfg(not(feature = "engine"))]
    let forks_differ = false;
    let refuted = [
        off(gap.tv_first_token),
        !gap.is_zero(),
        off(gap.out_of_support),
        too_slow,
        rows.wrong > 0,
        off(dists.max_error),
        !repeats.is_empty(),
        misfit,
        strays,
        case.seeded && unfair_bit(mutant.seeded).is_some(),
        forks_differ,
    ];
    let killed_by = CHECKS.iter().zip(refuted).filter(|(_, hit)| *hit).map(|(c, _)| c.0).collect();
    Ok(MutantReport {
        name: bug.name,
        imitates: bug.summary,
        killed_by,
        tv_first_token: gap.tv_first_token,
        tv_joint: gap.tv_joint,
        on_paper: case.on_paper,
    })
}

fn begin<'a>(
    mutant: &Mutant,
    target: &'a dyn LanguageModel,
    draft: &'a dyn LanguageModel,
    recorded: &'a Sampler,
    tokens: usize,
) -> Result<Generation<'a>, Error> {
    let params = DrafterParams {
        tools: Tools { draft: Some(draft), ..Tools::default() },
        sampler: recorded,
        target_sampler: recorded,
        params: &Params::default(),
    };
    let [target_sampling, _] = mutant.case.sampling();
    let method = Method {
        drafter: (mutant.drafter)(&params)?,
        length: Box::new(Fixed { k: mutant.case.k }),
        verifier: Rc::new(mutant.verifier),
        sampler: Sampler::new((mutant.sampler)(target_sampling))?,
    };
    Generation::new(target, method, PROMPT, StopRules::max_tokens(tokens), None)
}
