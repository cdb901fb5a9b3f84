//! A language model of counted n-grams.
//!
//! After the longest of the last n − 1, n − 2 … 0 tokens that has been seen
//! with a successor, the distribution is the successors' frequency, processed by the
//! same sampler as a draft model's. Counts come from a text file, or from
//! prompt and output themselves.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{BuildDrafter, DRAFT_SAMPLING, Drafter, Round};
use crate::clock::Clock;
use crate::distribution::{Dist, Token};
use crate::model::ModelError;
use crate::params::Param;
use crate::registry::Entry;
use crate::sampling::{History, Logits, Sampler};
use crate::tree::{Draft, DraftShape, NodeId};

const ORDER: Param =
    Param::count("ngram_order", 2, 1..=16, "n: 1 for unigrams, 2 for bigrams, 3 …");
const TEXT: Param = Param::file(
    "ngram_text",
    "a text file to count; without one, prompt and output are counted as they come",
);

/// The registry entry.
pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "ngram_lm",
    aliases: &["ngram_model"],
    params: &[ORDER, TEXT, DRAFT_SAMPLING[0], DRAFT_SAMPLING[1], DRAFT_SAMPLING[2]],
    summary: "a model of counted n-grams, from a text file or from the text so far",
    paper: "Leviathan et al. 2023, arXiv 2211.17192, Table 3 (unigram and bigram rows)",
    build: BuildDrafter {
        needs_model: false,
        shape: |_| Ok(DraftShape::SAMPLED),
        make: |params| {
            let (order, file) = (params.params.count(&ORDER), params.params.text(&TEXT));
            let (counts, learns) = match file.as_str() {
                "" => (Rc::new(Counts::new(order)), true),
                file => (params.tools.counts(file, order)?, false),
            };
            let sampler = params.sampler.clone();
            Ok(Box::new(NgramLm { counts, learns, read: 0, sampler }))
        },
    },
};

/// Successors of the last tokens, by frequency.
#[derive(Debug, Clone)]
struct NgramLm {
    counts: Rc<Counts>,
    /// Whether the text so far is counted.
    learns: bool,
    /// Tokens of the text that have been counted.
    read: usize,
    sampler: Sampler,
}

/// How often tokens followed each other.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    order: usize,
    /// By the tokens before: 0 to n − 1 of them.
    after: BTreeMap<Vec<Token>, BTreeMap<Token, u32>>,
}

impl Counts {
    /// Of n-grams up to n = `order`, still without any.
    pub(super) fn new(order: usize) -> Self {
        Self { order, after: BTreeMap::new() }
    }

    /// Counts the last token of `text` after all that may come before it.
    pub(super) fn add(&mut self, text: &[Token]) {
        let Some((&token, before)) = text.split_last() else { return };
        for n in 0..self.order.min(before.len() + 1) {
            let key = before[before.len() - n..].to_vec();
            *self.after.entry(key).or_default().entry(token).or_default() += 1;
        }
    }

    /// What followed the longest known end of `text`.
    fn successors(&self, text: &[Token]) -> Option<&BTreeMap<Token, u32>> {
        let longest = (self.order - 1).min(text.len());
        (0..=longest).rev().find_map(|n| self.after.get(&text[text.len() - n..]))
    }
}

impl NgramLm {
    fn learn(&mut self, text: &[Token]) {
        if self.learns {
            let counts = Rc::make_mut(&mut self.counts);
            (self.read..text.len()).for_each(|at| counts.add(&text[..=at]));
            self.read = text.len();
        }
    }

    /// The processed distribution after context and draft; none if nothing is known.
    fn distribution(
        &self,
        round: &Round<'_>,
        drafted: &[Token],
    ) -> Result<Option<Rc<Dist>>, ModelError> {
        // A few last tokens are all that counts look at.
        let tail = round.context.len().saturating_sub(self.counts.order);
        let text = [&round.context[tail..], drafted].concat();
        let Some(next) = self.counts.successors(&text) else { return Ok(None) };
        let mut logits = vec![f64::NEG_INFINITY; round.vocab];
        for (&token, &count) in next {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = f64::from(count).ln();
            }
        }
        let (prompt_len, context) = (round.prompt_len, round.context);
        let history = History { prompt_len, context, drafted };
        let dist = self.sampler.distribution(&Logits::F64(logits), history);
        dist.map(|dist| Some(Rc::new(dist))).map_err(|e| ModelError::new(format!("ngram_lm: {e}")))
    }
}

impl<'a> Drafter<'a> for NgramLm {
    fn prefill(&mut self, prompt: &[Token], _clock: &dyn Clock) -> Result<(), ModelError> {
        self.learn(prompt);
        Ok(())
    }

    fn propose(&mut self, round: &mut Round<'_>) -> Result<Draft, ModelError> {
        self.learn(round.context);
        let mut draft = Draft::empty(round.vocab);
        let mut parent: Option<NodeId> = None;
        while round.go_deeper(&draft) {
            let drafted = parent.map_or_else(Vec::new, |id| draft.tokens_to(id));
            let Some(dist) = self.distribution(round, &drafted)? else { break };
            parent = Some(round.draw(&mut draft, parent, &dist, 0));
        }
        Ok(draft)
    }

    fn state_key(&mut self, _context: &[Token]) -> Result<Vec<u8>, ModelError> {
        // A function of the committed tokens.
        Ok(Vec::new())
    }

    fn fork(&self) -> Result<Box<dyn Drafter<'a> + 'a>, ModelError> {
        Ok(Box::new(self.clone()))
    }
}
