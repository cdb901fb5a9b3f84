//! Drafters, which propose tokens.
//!
//! A drafter fills a [`Draft`] and nothing else. The output stays exact for any
//! drafter, because a sampled token is drawn inside the draft, from the distribution
//! that is recorded with it.

mod best_tree;
mod cascade;
mod hybrid;
mod model;
mod model_tree;
mod ngram_lm;
mod none;
mod oracle;
mod passes;
mod predict;
mod prompt_lookup;
mod reader;
mod sampling;
mod suffix_automaton;
mod token_recycling;
mod tools;
mod tree_confidence;
mod tree_optimal;

pub use model::ModelDrafter;
#[cfg(feature = "harness")]
pub(crate) use model_tree::parse_tree;
pub(crate) use model_tree::{AUTO, SIBLINGS};
pub use none::{NoDraft, PLAIN, is_plain};
pub(crate) use passes::{Drafting, complete};
pub use passes::{PassDesk, Pausing, at_once};
pub use prompt_lookup::PromptLookup;
pub(crate) use sampling::DRAFT_SAMPLING;
use sampling::with_draft_sampling;
pub use sampling::{draft_sampling, without_repeats};
pub use tools::{ReadText, Texts, Tools};

use std::rc::Rc;

use crate::core::chance::Chance;
use crate::core::clock::Clock;
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::params::Params;
use crate::core::registry::Entry;
use crate::core::round::RoundEvent;
use crate::core::sampling::Sampler;
use crate::core::tree::{Draft, DraftShape, NodeId, Siblings};
use crate::method::length::DraftLength;
use crate::model::{LanguageModel, Tap};

use reader::{Prediction, Reader};

/// Proposes one draft per round.
pub trait Drafter<'a>: std::fmt::Debug {
    /// The draft model that it reads, if it has one.
    fn reader(&mut self) -> Option<&mut Reader<'a>> {
        None
    }

    /// Called before the prefill: the sequence may grow to `tokens` tokens. See
    /// [`crate::model::Session::expect`].
    ///
    /// # Errors
    /// If the drafter's model lacks the memory for them.
    fn expect(&mut self, tokens: usize) -> Result<(), Error> {
        self.reader().map_or(Ok(()), |reader| reader.expect(tokens))
    }

    /// Whether it estimates the acceptance of a token before it draws it.
    fn estimates(&mut self) -> bool {
        self.reader().is_some_and(|reader| reader.estimates())
    }

    /// The hidden states of the target that it reads.
    fn taps(&mut self) -> &'a [Tap] {
        self.reader().map_or(&[], |reader| reader.taps())
    }

    /// Processes the prompt, which is the context of the desk, before the first round and after
    /// the target. Its time counts as prefill, not as decoding.
    ///
    /// # Errors
    /// If the drafter's model fails.
    fn prefill(&mut self, desk: &PassDesk<'a, '_>, clock: &dyn Clock) -> Result<(), Error> {
        self.reader().map_or(Ok(()), |reader| reader.prefill(desk, clock))
    }

    /// Proposes a draft for the round.
    ///
    /// The draft is an error if the drafter's model fails, or its logits do not define a
    /// distribution.
    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f>;

    /// Called after every round with the target's logits of all rows, those of rejected
    /// nodes included.
    fn observe(&mut self, event: &RoundEvent<'_>) {
        let _ = event;
    }

    /// All state that proposals after `context` depend on, as bytes: by default that of the draft
    /// model.
    ///
    /// # Errors
    /// If the drafter's session cannot be brought to `context`.
    fn state_key(&mut self, context: &[Token]) -> Result<Vec<u8>, Error> {
        self.reader().map_or(Ok(Vec::new()), |reader| reader.state_key(context))
    }

    /// An independent copy.
    ///
    /// # Errors
    /// If the drafter's session cannot be copied.
    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error>;
}

/// What a drafter can see and use in one round.
#[derive(Debug)]
pub struct Round<'a, 'r> {
    /// Prompt and committed tokens.
    pub context: &'r [Token],
    /// Number of prompt tokens at the start of `context`.
    pub prompt_len: usize,
    /// Number of tokens in the vocabulary.
    pub vocab: usize,
    /// The tokens that end the completion; nothing is drafted after them.
    pub ends: &'r [Token],
    /// The maximum depth of the draft: the policy's, or less if fewer tokens may still be emitted.
    pub limit: usize,
    /// The draft length policy, consulted before each further level.
    pub length: &'r mut dyn DraftLength,
    /// Number of lists of position-keyed noise that the verifier uses; `None` if tokens
    /// must be drawn independently.
    pub coupling: Option<usize>,
    /// The source of randomness for drafted tokens.
    pub chance: &'r mut dyn Chance,
    /// Number of passes of the drafter's model so far.
    pub forwards: usize,
    /// Whether the context of the drafter's model had no room for a token.
    pub full: bool,
    /// The desk for passes of the drafter's model, which other sequences may share.
    pub desk: &'r PassDesk<'a, 'r>,
}

impl<'a, 'r> Round<'a, 'r> {
    /// A round after the tokens of a desk, as deep as the policy allows, without tokens that end
    /// the completion and with independent draws.
    pub fn new(
        desk: &'r PassDesk<'a, 'r>,
        (prompt_len, vocab): (usize, usize),
        length: &'r mut dyn DraftLength,
        chance: &'r mut dyn Chance,
    ) -> Self {
        let (context, limit) = (desk.context(), length.max_depth());
        Self {
            context,
            prompt_len,
            vocab,
            ends: &[],
            limit,
            length,
            coupling: None,
            chance,
            forwards: 0,
            full: false,
            desk,
        }
    }

    /// Whether to draft one level below the deepest one of `draft`.
    pub fn go_deeper(&mut self, draft: &Draft) -> bool {
        let depth = draft.depth();
        let mut deepest = (0..draft.len()).rev().filter(|&id| draft.node(id).depth == depth);
        depth < self.limit
            && (depth == 0 || deepest.any(|id| self.is_open(draft, id)))
            && self.length.go_deeper(draft)
    }

    /// Whether a token after a row is worth drafting.
    fn is_worth(&mut self, prediction: &Prediction) -> bool {
        prediction.confidence.is_none_or(|confidence| self.length.is_worth(confidence))
    }

    /// Whether a node may have children: its token does not end the completion.
    pub(crate) fn is_open(&self, draft: &Draft, node: NodeId) -> bool {
        !self.ends.contains(&draft.node(node).token)
    }

    /// Drafts a copy of the context from position `next` on. Past its end, it continues with the
    /// tokens just copied, which extends periodic sequences.
    fn copy_from(&mut self, next: usize, draft: &mut Draft) {
        let mut parent = draft.len().checked_sub(1);
        for at in next.. {
            if !self.go_deeper(draft) {
                break;
            }
            let drafted = |at: usize| draft.node(at - self.context.len()).token;
            let token = self.context.get(at).copied().unwrap_or_else(|| drafted(at));
            parent = Some(draft.certain(parent, token));
        }
    }

    /// Adds a token drawn from the draft model's prediction.
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

    /// Adds up to `count` children of the given kind from the draft model's prediction; none if they
    /// are not worth it.
    /// For a greedy draft model, [`Siblings::Distinct`] adds the most probable tokens,
    /// the limit of draws without replacement as the temperature goes to 0.
    fn grow(
        &mut self,
        draft: &mut Draft,
        (parent, prediction): (Option<NodeId>, &Prediction),
        (siblings, count): (Siblings, usize),
    ) {
        if !self.is_worth(prediction) {
            return;
        }
        let (known, dist) = (draft.len(), &prediction.dist);
        match siblings {
            // If the verifier uses noise lists, each sibling races on its own list. A
            // second race on the same list would return the same token, hence the
            // limit.
            Siblings::Independent => {
                let count = self.coupling.map_or(count, |lists| count.min(lists));
                for list in 0..count {
                    self.draw(draft, parent, dist, list);
                }
            }
            Siblings::Distinct if !prediction.greedy() => {
                draft.sample_distinct(parent, dist, count, self.chance);
            }
            Siblings::LastSampled => draft.sample_last(parent, dist, count, self.chance),
            Siblings::Hub if count == 2 => draft.sample_hub(parent, dist, self.chance),
            Siblings::Hub => draft.sample_distinct(parent, dist, count, self.chance),
            Siblings::TopK | Siblings::Distinct | Siblings::Mixed => {
                let ranked = prediction.belief.most_probable(count);
                for token in ranked {
                    draft.certain(parent, token);
                }
            }
        }
        for id in known..draft.len() {
            draft.believe(id, &prediction.belief);
        }
    }

    /// Adds a token drawn from `dist` to the draft; if the verifier uses position-keyed
    /// noise, the token is raced against list number `list` of it.
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

/// What a drafter is built from.
#[derive(Debug, Clone, Copy)]
pub struct DrafterParams<'a, 's> {
    /// The available models and text files.
    pub tools: Tools<'a>,
    /// How the target's logits become distributions.
    pub target_sampler: &'s Sampler,
    /// How the draft model's logits become distributions: the target's settings, except
    /// those set for the draft model.
    pub sampler: &'s Sampler,
    /// The drafter's own settings.
    pub params: &'s Params,
}

impl<'a> DrafterParams<'a, '_> {
    /// The draft model, for drafters that require one.
    ///
    /// # Errors
    /// If there is no draft model.
    pub fn model(&self, drafter: &str) -> Result<&'a dyn LanguageModel, Error> {
        self.tools.draft.ok_or_else(|| {
            Error::setting(format!("drafter \"{drafter}\" needs a draft model: set \"draft\""))
        })
    }
}

/// How to build a drafter.
#[derive(Debug, Clone, Copy)]
pub struct BuildDrafter {
    /// Whether a draft model is required.
    pub needs_model: bool,
    /// Everything that its drafts may contain under these settings, or a sentence if
    /// the settings are inconsistent.
    pub shape: fn(&Params) -> Result<DraftShape, Error>,
    /// Builds the drafter.
    pub make: MakeDrafter,
}

/// A function that builds a drafter.
pub type MakeDrafter =
    for<'a, 's> fn(&DrafterParams<'a, 's>) -> Result<Box<dyn Drafter<'a> + 'a>, Error>;

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
