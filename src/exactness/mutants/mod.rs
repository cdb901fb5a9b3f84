//! Known-wrong methods. Each imitates a mistake that has been made in real systems, and each must
//! be refuted: a suite that misses one of them proves nothing about the methods that it certifies.
//!
//! A mutant replaces or wraps one part of the production loop (target, drafter, verifier, sampler
//! or chance). The loop itself is unchanged.
//!
//! Some leave every enumerated distribution as it is, and other checks refute them:
//! `no_bonus` and `draft_distributions_lost` cost speed (the expected length),
//! `position_keyed_draft` and `race_keyed_by_round` misuse the addresses of draws (the
//! audit of draws, the tokens of plain decoding), and `uniform_24_bit_tail` never draws
//! the last 2^-24 of a distribution (the bits of seeded uniforms).

mod blocks;
mod chances;
mod checks;
mod drafters;
mod models;
mod noise;
mod served;
mod verifiers;
mod vocabularies;

pub use checks::{CHECKS, MutantReport, refute};
pub use served::of_any_models;

use super::closed::Rule;
use super::enumerate::{WrapCache, WrapChance, straight};
use super::reference::draft_model;
use crate::distribution::Token;
use crate::draft::{MakeDrafter, ModelDrafter, PromptLookup};
use crate::error::Error;
use crate::model::{LanguageModel, Toy, ToyPair};
use crate::sampling::SamplingParams;
use crate::verify::{Gumbel, Rejection, Verifier};

/// The prompt of every case. It contains a repetition, so that lookups find something.
pub(super) const PROMPT: &[Token] = &[0, 1, 0];

/// The setup of a mutant.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Target and draft.
    pub pair: CaseModels,
    /// The requested sampling settings.
    pub target: SamplingParams,
    /// The draft's sampling settings, as recorded in the draft.
    pub draft: SamplingParams,
    /// Draft length.
    pub k: usize,
    /// Number of tokens of the joint distribution: at least K + 2, to include a bonus token and the
    /// round after a rejection.
    pub tokens: usize,
    /// The closed form with which E\[L\] is compared.
    pub rule: Option<Rule>,
    /// Whether the mistake affects the seeded generator, so that goodness of fit is tested.
    pub seeded: bool,
    /// Whether the mistake affects the CPU engine, so that its forks are checked.
    pub engine: bool,
}

/// The models of a case.
#[derive(Debug, Clone, Copy)]
pub enum CaseModels {
    /// A built-in toy pair.
    Toy(&'static str),
    /// Distributions p and q that are independent of the context, for which the error has a closed
    /// form.
    Distributions(&'static [f64], &'static [f64]),
}

/// A known-wrong method.
#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    /// Its name in the kill matrix.
    pub name: &'static str,
    /// The mistake in one sentence.
    pub imitates: &'static str,
    /// Its setup.
    pub case: Case,
    /// Total variation of the first token by a closed form, if there is one.
    pub on_paper: Option<f64>,
    target: fn(Toy) -> Box<dyn LanguageModel>,
    draft: DraftOf,
    drafter: MakeDrafter,
    verifier: &'static dyn Verifier,
    sampler: fn(SamplingParams) -> SamplingParams,
    /// Wraps the source of randomness of the enumeration.
    walked: Option<WrapChance>,
    /// Wraps the seeded generator.
    seeded: WrapChance,
    /// Wraps the cache of the CPU engine.
    #[cfg_attr(not(feature = "engine"), allow(dead_code))]
    cache: WrapCache,
}

/// Makes the draft model of a pair for its target.
type DraftOf = fn(&ToyPair, &Toy) -> Result<Box<dyn LanguageModel>, Error>;

const CASE: Case = Case {
    pair: CaseModels::Toy("mixed"),
    target: SamplingParams::NEUTRAL,
    draft: SamplingParams::NEUTRAL,
    k: 2,
    tokens: 4,
    rule: Some(Rule::Rejection),
    seeded: false,
    engine: false,
};

/// A tree instead of a chain, without a closed form.
const TREE_CASE: Case = Case { pair: CaseModels::Toy("close"), rule: None, ..CASE };

/// One drafted token from distributions that are independent of the context.
const fn on_paper(p: &'static [f64], q: &'static [f64]) -> Case {
    Case { pair: CaseModels::Distributions(p, q), k: 1, tokens: 3, ..CASE }
}

/// The correct method, from which every mutant differs in one part.
const RIGHT: Mutant = Mutant {
    name: "right",
    imitates: "nothing: the production code as it is",
    case: CASE,
    on_paper: None,
    target: |toy| Box::new(toy),
    draft: draft_model,
    drafter: |params| {
        let model =
            params.tools.draft.ok_or_else(|| Error::setting("a mutant needs a draft model"))?;
        Ok(Box::new(ModelDrafter::new(model, params.sampler.clone())?))
    },
    verifier: &Rejection,
    sampler: |params| params,
    walked: None,
    seeded: straight,
    cache: |cache| cache,
};

/// A correct method of class P: looked-up drafts and a race of the target.
const RIGHT_RACE: Mutant = Mutant {
    name: "right_race",
    case: Case { rule: None, ..CASE },
    drafter: |_| Ok(Box::new(PromptLookup { max: 3, min: 1, leftmost: false })),
    verifier: &Gumbel { lists: 1 },
    ..RIGHT
};

/// Production code in place of mutants.
const CONTROLS: &[Mutant] = &[
    RIGHT,
    Mutant { name: "right_seeded", case: Case { seeded: true, ..CASE }, ..RIGHT },
    Mutant { name: "right_forks", case: Case { engine: true, ..CASE }, ..RIGHT },
    verifiers::RIGHT_LOOP,
    blocks::RIGHT_BLOCK,
    blocks::RIGHT_TRAVERSAL,
    drafters::RIGHT_TREE,
    RIGHT_RACE,
    models::RIGHT_ROWS,
    vocabularies::RIGHT_INTERSECTION,
];

/// Production code in place of mutants: none of these may be refuted.
pub fn controls() -> Vec<Mutant> {
    CONTROLS.iter().copied().filter(can_run).collect()
}

/// The known-wrong methods by file, and whether they work with any pair of models.
const MUTANTS: [(&[Mutant], bool); 8] = [
    (verifiers::MUTANTS, true),
    (blocks::MUTANTS, true),
    (models::MUTANTS, false),
    (models::SAMPLERS, true),
    (drafters::MUTANTS, true),
    (chances::MUTANTS, true),
    (noise::MUTANTS, true),
    (vocabularies::MUTANTS, false),
];

/// All known-wrong methods.
pub fn mutants() -> Vec<Mutant> {
    MUTANTS.iter().flat_map(|(own, _)| *own).copied().filter(can_run).collect()
}

/// The wrong verifiers that are also wrong on chains: name, mistake and verifier.
pub(super) fn chain_verifiers()
-> impl Iterator<Item = (&'static str, &'static str, &'static dyn Verifier)> {
    let chains = verifiers::MUTANTS.iter().filter(|mutant| mutant.case.rule.is_some());
    chains.map(|mutant| (mutant.name, mutant.imitates, mutant.verifier))
}

/// Builds without the CPU engine skip mutants that need it.
fn can_run(mutant: &Mutant) -> bool {
    cfg!(feature = "engine") || !mutant.case.engine
}
