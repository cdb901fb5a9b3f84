//! Drafters: WHO proposes.
//!
//! A drafter fills a [`Draft`] and nothing else. Whatever it does, the output
//! stays exact, because sampled tokens are drawn inside the draft from the distribution
//! that is recorded with them.

mod cascade;
mod copy;
mod hybrid;
mod model;
mod model_tree;
mod ngram_lm;
mod none;
mod oracle;
mod prompt_lookup;
mod reader;
mod sequoia;
mod suffix_automaton;
mod token_recycling;
mod tools;
mod tree_confidence;
mod tree_optimal;

pub use model::ModelDrafter;
pub(crate) use model_tree::{AUTO, SIBLINGS};
pub use none::NoDraft;
pub use prompt_lookup::PromptLookup;
pub use tools::{ReadText, Texts, Tools};

use std::rc::Rc;

use crate::chance::Chance;
use crate::clock::Clock;
use crate::distribution::{Dist, Token};
use crate::length::DraftLength;
use crate::model::{LanguageModel, ModelError};
use crate::params::{Param, Params};
use crate::registry::Entry;
use crate::round::RoundEvent;
use crate::sampling::{MOST_TOP_K, Sampler, SamplingParams};
use crate::tree::{Draft, DraftShape, NodeId, Siblings};

use reader::Prediction;

/// Proposes tokens, one draft per round.
pub trait Drafter<'a>: std::fmt::Debug {
    /// Takes in the prompt before the first round, outside the decode time.
    ///
    /// # Errors
    /// If the drafter's model fails.
    fn prefill(&mut self, prompt: &[Token], clock: &dyn Clock) -> Result<(), ModelError> {
        let _ = (prompt, clock);
        Ok(())
    }

    /// Proposes a draft for the round.
    ///
    /// # Errors
    /// If the drafter's model fails or returns logits that are no distribution.
    fn propose(&mut self, round: &mut Round<'_>) -> Result<Draft, ModelError>;

    /// Told after every round, with the target's rows, rejected ones included.
    fn observe(&mut self, event: &RoundEvent<'_>) {
        let _ = event;
    }

    /// Everything that future proposals after `context` depend on.
    ///
    /// # Errors
    /// If the drafter's session cannot be brought to `context`.
    fn state_key(&mut self, context: &[Token]) -> Result<Vec<u8>, ModelError>;

    /// An independent copy.
    ///
    /// # Errors
    /// If the drafter's session cannot be copied.
    fn fork(&self) -> Result<Box<dyn Drafter<'a> + 'a>, ModelError>;
}

/// What a drafter gets to see and use in one round.
#[derive(Debug)]
pub struct Round<'r> {
    /// Prompt and committed tokens.
    pub context: &'r [Token],
    /// Number of prompt tokens at the start of `context`.
    pub prompt_len: usize,
    /// Number of tokens in the vocabulary.
    pub vocab: usize,
    /// The largest depth that can still be committed, at most the policy's.
    pub limit: usize,
    /// Asked before each further level.
    pub length: &'r mut dyn DraftLength,
    /// Lists of position-keyed noise that the verifier races; none if it wants
    /// tokens drawn on their own.
    pub coupling: Option<usize>,
    /// Where draft tokens are drawn from.
    pub chance: &'r mut dyn Chance,
    /// Told of every pass of the drafter's model.
    pub clock: &'r dyn Clock,
    /// Counts the passes of the drafter's model.
    pub forwards: usize,
}

impl Round<'_> {
    /// Whether to draft one level below what `draft` holds.
    pub fn go_deeper(&mut self, draft: &Draft) -> bool {
        draft.depth() < self.limit && self.length.go_deeper(draft)
    }

    /// Adds a token to a chain, as the draft model predicts.
    fn draw_predicted(
        &mut self,
        draft: &mut Draft,
        parent: Option<NodeId>,
        prediction: &Prediction,
    ) -> NodeId {
        let id = self.draw(draft, parent, &prediction.dist, 0);
        draft.believe(id, &prediction.belief);
        id
    }

    /// Adds up to `count` children, chosen in this way, as the draft model predicts.
    /// Greedy drafts without replacement are the most probable tokens, to which
    /// such draws tend as the temperature falls.
    fn grow(
        &mut self,
        draft: &mut Draft,
        (parent, prediction): (Option<NodeId>, &Prediction),
        (siblings, count): (Siblings, usize),
    ) {
        let (known, dist) = (draft.len(), &prediction.dist);
        match siblings {
            // Raced where the verifier has noise to couple them with, once per list:
            // the same list again would be no other draw.
            Siblings::Independent => {
                let count = self.coupling.map_or(count, |lists| count.min(lists));
                (0..count).for_each(|list| _ = self.draw(draft, parent, dist, list));
            }
            Siblings::Distinct if !prediction.greedy() => {
                draft.sample_distinct(parent, dist, count, self.chance);
            }
            Siblings::LastSampled => draft.sample_last(parent, dist, count, self.chance),
            Siblings::Hub if count == 2 => draft.sample_hub(parent, dist, self.chance),
            Siblings::Hub => draft.sample_distinct(parent, dist, count, self.chance),
            Siblings::Listed | Siblings::Distinct | Siblings::Mixed => {
                let ranked = prediction.belief.most_probable(count);
                ranked.into_iter().for_each(|token| _ = draft.certain(parent, token));
            }
        }
        (known..draft.len()).for_each(|id| draft.believe(id, &prediction.belief));
    }

    /// Adds a token drawn from `dist` to the draft, raced against the verifier's
    /// noise if it has such; `list` numbers independent siblings.
    pub fn draw(
        &mut self,
        draft: &mut Draft,
        parent: Option<NodeId>,
        dist: &Rc<Dist>,
        list: usize,
    ) -> NodeId {
        if self.coupling.is_none() {
            return draft.sample(parent, dist, self.chance);
        }
        let position = self.context.len() + parent.map_or(0, |id| draft.node(id).depth);
        draft.race(parent, dist, (position, list), self.chance)
    }
}

/// The draft model's temperature.
pub(crate) const DRAFT_TEMPERATURE: Param = Param::number(
    "draft_temperature",
    1.0,
    0.0..=f64::MAX,
    "temperature of the draft model; the target's if not given",
)
.optional();
const DRAFT_TOP_K: Param = Param::count(
    "draft_top_k",
    0,
    0..=MOST_TOP_K,
    "top_k of the draft model; the target's if not given",
)
.optional();
const DRAFT_TOP_P: Param = Param::number(
    "draft_top_p",
    1.0,
    f64::MIN_POSITIVE..=1.0,
    "top_p of the draft model; the target's if not given",
)
.optional();

/// How a draft model samples where it differs from the target.
pub(crate) const DRAFT_SAMPLING: [Param; 3] = [DRAFT_TEMPERATURE, DRAFT_TOP_K, DRAFT_TOP_P];

/// How a draft model's logits become distributions: as the target's, but for what is set.
pub fn draft_sampling(target: SamplingParams, params: &Params) -> SamplingParams {
    SamplingParams {
        temperature: params.optional_number(&DRAFT_TEMPERATURE).unwrap_or(target.temperature),
        top_k: params.optional_count(&DRAFT_TOP_K).unwrap_or(target.top_k),
        top_p: params.optional_number(&DRAFT_TOP_P).unwrap_or(target.top_p),
        ..target
    }
}

/// The settings without those that repeat the target's.
pub fn without_repeats(target: &SamplingParams, params: Params) -> Params {
    let repeats = |param: &&Param| match params.optional_number(param) {
        Some(x) if param.key == DRAFT_TEMPERATURE.key => x == target.temperature,
        Some(x) if param.key == DRAFT_TOP_K.key => x == target.top_k as f64,
        Some(x) => x == target.top_p,
        None => false,
    };
    let repeated = DRAFT_SAMPLING.iter().filter(repeats).collect::<Vec<_>>();
    repeated.into_iter().fold(params, Params::without)
}

/// What a drafter is made from.
#[derive(Debug, Clone, Copy)]
pub struct DrafterParams<'a, 's> {
    /// Models and texts to make it of.
    pub tools: Tools<'a>,
    /// How the target's logits become distributions.
    pub target_sampler: &'s Sampler,
    /// How the draft model's logits become distributions: the target's settings, but for
    /// those that are set for the draft.
    pub sampler: &'s Sampler,
    /// Settings of the drafter.
    pub params: &'s Params,
}

impl<'a> DrafterParams<'a, '_> {
    /// The draft model of a drafter that cannot do without.
    ///
    /// # Errors
    /// If there is none.
    pub fn model(&self, drafter: &str) -> Result<&'a dyn LanguageModel, ModelError> {
        self.tools.draft.ok_or_else(|| {
            ModelError::new(format!("drafter \"{drafter}\" needs a draft model: set \"draft\""))
        })
    }
}

/// How a drafter is made.
#[derive(Debug, Clone, Copy)]
pub struct BuildDrafter {
    /// Whether it cannot do without a draft model.
    pub needs_model: bool,
    /// All that its drafts may hold under some settings; a sentence if these do
    /// not go together.
    pub shape: fn(&Params) -> Result<DraftShape, String>,
    /// Makes it.
    pub make: MakeDrafter,
}

/// Makes a drafter.
pub type MakeDrafter =
    for<'a, 's> fn(&DrafterParams<'a, 's>) -> Result<Box<dyn Drafter<'a> + 'a>, ModelError>;

/// All drafters. `none` is plain autoregressive decoding in the same loop.
pub const DRAFTERS: &[Entry<BuildDrafter>] = &[
    none::ENTRY,
    model::ENTRY,
    model_tree::ENTRY,
    tree_optimal::ENTRY,
    tree_confidence::ENTRY,
    prompt_lookup::ENTRY,
    suffix_automaton::ENTRY,
    token_recycling::ENTRY,
    ngram_lm::ENTRY,
    cascade::ENTRY,
    hybrid::ENTRY,
    oracle::ENTRY,
];
