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

use std::rc::Rc;

use crate::core::chance::Chance;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::params::Params;
use crate::core::sampling::{Controls, Sampler, SamplingParams};
use crate::method::decode::{Method, MethodSpec};
use crate::method::draft::{
    DrafterParams, MakeDrafter, ModelDrafter, PromptLookup, Tools, draft_sampling,
};
use crate::method::verify::{Gumbel, Rejection, Rule, Verifier};
use crate::model::{KvCache, LanguageModel, Toy, ToyPair};

/// An adapter around a source of randomness.
pub(crate) type WrapChance = for<'c> fn(&'c mut dyn Chance) -> Box<dyn Chance + 'c>;

/// An adapter around the cache of a sequence.
pub(crate) type WrapCache = fn(Box<dyn KvCache>) -> Box<dyn KvCache>;

/// The adapter that changes nothing.
pub(crate) fn straight<'c>(inner: &'c mut dyn Chance) -> Box<dyn Chance + 'c> {
    Box::new(inner)
}

/// The prompt of every case. It contains a repetition, so that lookups find something.
pub(crate) const PROMPT: &[Token] = &[0, 1, 0];

/// The setup of a mutant.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Target and draft.
    pub pair: CaseModels,
    /// The requested sampling settings.
    pub target: &'static SamplingParams,
    /// The draft's sampling settings, as recorded in the draft.
    pub draft: &'static SamplingParams,
    /// The controls of the target, and those of the draft as recorded.
    pub controls: [fn() -> Controls; 2],
    /// Draft length.
    pub k: usize,
    /// Number of tokens of the joint distribution: at least K + 2, to include a bonus token and the
    /// round after a rejection.
    pub tokens: usize,
    /// The closed form with which E\[L\] is compared.
    pub rule: Option<Rule>,
    /// Total variation of the first token by a closed form, if there is one.
    pub on_paper: Option<f64>,
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
    /// Its setup.
    pub case: Case,
    /// A wrong target in place of the pair's.
    pub(crate) target: Option<fn(Toy) -> Box<dyn LanguageModel>>,
    /// A wrong draft model in place of the pair's.
    pub(crate) draft: Option<DraftOf>,
    pub(crate) drafter: MakeDrafter,
    pub(crate) verifier: &'static dyn Verifier,
    pub(crate) sampler: fn(SamplingParams) -> SamplingParams,
    /// Wraps the source of randomness of the enumeration.
    pub(crate) walked: Option<WrapChance>,
    /// Wraps the seeded generator.
    pub(crate) seeded: WrapChance,
    /// Wraps the cache of the CPU engine.
    #[cfg_attr(not(feature = "engine"), allow(dead_code))]
    pub(crate) cache: WrapCache,
}

impl Case {
    /// The settings of target and draft, with their controls.
    pub fn sampling(&self) -> [SamplingParams; 2] {
        let [target, draft] = self.controls.map(|controls| controls());
        [
            SamplingParams { controls: target, ..self.target.clone() },
            SamplingParams { controls: draft, ..self.draft.clone() },
        ]
    }
}

impl Mutant {
    /// The method of `spec` with the mistake.
    ///
    /// # Errors
    /// If the method cannot be built, or the mistake needs a draft model and there is none.
    pub fn method<'a>(&self, spec: &MethodSpec, tools: Tools<'a>) -> Result<Method<'a>, Error> {
        let right = spec.build_with(tools)?;
        let recorded = Sampler::new(draft_sampling(spec.sampling.clone(), &spec.params))?;
        let drafter = (self.drafter)(&DrafterParams {
            tools,
            sampler: &recorded,
            target_sampler: &Sampler::new(spec.sampling.clone())?,
            params: &Params::default(),
        })?;
        Ok(Method {
            drafter,
            verifier: Rc::new(self.verifier),
            sampler: Sampler::new((self.sampler)(spec.sampling.clone()))?,
            ..right
        })
    }

    /// The random numbers with the mistake.
    pub fn wrap<'c>(&self, chance: &'c mut dyn Chance) -> Box<dyn Chance + 'c> {
        (self.seeded)(chance)
    }
}

/// Makes the draft model of a pair for its target.
pub(crate) type DraftOf = fn(&ToyPair, &Toy) -> Result<Box<dyn LanguageModel>, Error>;

pub(super) const CASE: Case = Case {
    pair: CaseModels::Toy("mixed"),
    target: &SamplingParams::NEUTRAL,
    draft: &SamplingParams::NEUTRAL,
    controls: [|| Controls::NONE; 2],
    k: 2,
    tokens: 4,
    rule: Some(Rule::Rejection),
    on_paper: None,
    seeded: false,
    engine: false,
};

pub(super) const COOL: &SamplingParams =
    &SamplingParams { temperature: 0.7, ..SamplingParams::NEUTRAL };
pub(super) const TOP_2: &SamplingParams = &SamplingParams { top_k: 2, ..SamplingParams::NEUTRAL };

/// A tree instead of a chain, without a closed form.
pub(super) const TREE_CASE: Case = Case { pair: CaseModels::Toy("close"), rule: None, ..CASE };

/// One drafted token from distributions that are independent of the context, with the total
/// variation of the first token.
pub(super) const fn on_paper(p: &'static [f64], q: &'static [f64], tv: f64) -> Case {
    let pair = CaseModels::Distributions(p, q);
    Case { pair, k: 1, tokens: 3, on_paper: Some(tv), ..CASE }
}

/// The correct method, from which every mutant differs in one part.
pub(super) const RIGHT: Mutant = Mutant {
    case: CASE,
    target: None,
    draft: None,
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
pub(super) const RIGHT_RACE: Mutant = Mutant {
    case: Case { rule: None, ..CASE },
    drafter: |_| Ok(Box::new(PromptLookup { max: 3, min: 1, leftmost: false })),
    verifier: &Gumbel { lists: 1 },
    ..RIGHT
};
