//! An n-gram language model.
//!
//! The context is the longest suffix of at most n − 1 tokens that has been counted with
//! a successor. The distribution is proportional to the counts of its successors,
//! processed by the same sampler as a draft model's logits. Counts come from a text
//! file, or from the prompt and the output so far.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{BuildDrafter, Drafter, PassDesk, Pausing, Round, with_draft_sampling};
use crate::core::clock::Clock;
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::params::Param;
use crate::core::registry::Entry;
use crate::core::sampling::{History, Logits, Sampler};
use crate::core::tree::{Draft, DraftShape, NodeId};

const ORDER: Param =
    Param::count("ngram_order", 2, 1..=16, "n: 1 for unigrams, 2 for bigrams, 3 …");
const TEXT: Param = Param::file(
    "ngram_text",
    "text file to count n-grams in; without one, the prompt and the output are counted",
);

pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "ngram_lm",
    aliases: &["ngram_model"],
    params: with_draft_sampling!(ORDER, TEXT),
    summary: "an n-gram model with counts from a text file, or from the prompt and the output \
              so far",
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

#[derive(Debug, Clone)]
struct NgramLm {
    counts: Rc<Counts>,
    /// Whether the prompt and the output are counted.
    learns: bool,
    /// Number of tokens counted so far.
    read: usize,
    sampler: Sampler,
}

#[derive(Debug, Clone)]
pub(super) struct Counts {
    order: usize,
    /// Counts of the next token, by the 0 to n − 1 tokens before it.
    after: BTreeMap<Vec<Token>, BTreeMap<Token, u32>>,
}

impl Counts {
    /// Empty counts of n-grams up to n = `order`.
    pub(super) fn new(order: usize) -> Self {
        Self { order, after: BTreeMap::new() }
    }

    /// Counts the last token of `sequence` after each context of 0 to n − 1 tokens before it.
    pub(super) fn add(&mut self, sequence: &[Token]) {
        let Some((&token, before)) = sequence.split_last() else { return };
        for n in 0..self.order.min(before.len() + 1) {
            let key = before[before.len() - n..].to_vec();
            *self.after.entry(key).or_default().entry(token).or_default() += 1;
        }
    }

    /// The successors of the longest suffix of `sequence` that has been counted.
    fn successors(&self, sequence: &[Token]) -> Option<&BTreeMap<Token, u32>> {
        let longest = (self.order - 1).min(sequence.len());
        (0..=longest).rev().find_map(|n| self.after.get(&sequence[sequence.len() - n..]))
    }
}

impl NgramLm {
    fn learn(&mut self, sequence: &[Token]) {
        if self.learns {
            let counts = Rc::make_mut(&mut self.counts);
            for at in self.read..sequence.len() {
                counts.add(&sequence[..=at]);
            }
            self.read = sequence.len();
        }
    }

    /// The processed distribution after context and draft; `None` if nothing has been
    /// counted.
    fn distribution(
        &self,
        round: &Round<'_, '_>,
        drafted: &[Token],
    ) -> Result<Option<Rc<Dist>>, Error> {
        // The counts depend on the last few tokens only.
        let tail = round.context.len().saturating_sub(self.counts.order);
        let sequence = [&round.context[tail..], drafted].concat();
        let Some(next) = self.counts.successors(&sequence) else { return Ok(None) };
        let mut logits = vec![f64::NEG_INFINITY; round.vocab];
        for (&token, &count) in next {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = f64::from(count).ln();
            }
        }
        let (prompt_len, context) = (round.prompt_len, round.context);
        let history = History { prompt_len, context, drafted };
        let dist = self.sampler.drafting(&Logits::F64(logits), history);
        dist.map(|dist| Some(Rc::new(dist))).map_err(Error::distribution("ngram_lm"))
    }
}

impl<'a> Drafter<'a> for NgramLm {
    fn prefill(&mut self, desk: &PassDesk<'a, '_>, _clock: &dyn Clock) -> Result<(), Error> {
        self.learn(desk.context());
        Ok(())
    }

    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            self.learn(round.context);
            let mut draft = Draft::empty(round.vocab);
            let mut parent: Option<NodeId> = None;
            while round.go_deeper(&draft) {
                let drafted = parent.map_or_else(Vec::new, |id| draft.tokens_to(id));
                let Some(dist) = self.distribution(round, &drafted)? else { break };
                parent = Some(round.draw(&mut draft, parent, &dist, 0));
            }
            Ok(draft)
        })
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        Ok(Box::new(self.clone()))
    }
}
