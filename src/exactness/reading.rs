//! A model that is read without being sampled: the distributions after a prompt.

use crate::distribution::{Dist, Token};
use crate::error::Error;
use crate::model::{LanguageModel, Session, Want, Work, evaluate_one};
use crate::sampling::{History, Logits, Sampler, SamplingParams};
use crate::tree::Draft;

/// A model that is asked for distributions after a prompt.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    /// Which model of a pair it is, for errors.
    who: &'static str,
    model: &'a dyn LanguageModel,
    session: Session,
    sampler: Sampler,
    prompt: &'a [Token],
}

impl<'a> Reading<'a> {
    /// A reading of `model`, called `who` in errors, as it is sampled.
    pub(super) fn new(
        who: &'static str,
        model: &'a dyn LanguageModel,
        params: SamplingParams,
        prompt: &'a [Token],
    ) -> Result<Self, Error> {
        let sampler = Sampler::new(params)?;
        Ok(Self { who, model, session: model.session()?, sampler, prompt })
    }

    /// The distribution after a text, by plain passes.
    #[cfg(feature = "engine")]
    pub(super) fn distribution(&mut self, text: &[Token]) -> Result<Dist, Error> {
        let context = [self.prompt, text].concat();
        let draft = Draft::empty(self.model.info().vocab);
        let rows = self.rows(&context, &draft, Want::Row(crate::tree::Row::CONTEXT))?;
        self.sampled(&rows[0], &context, &[])
    }

    /// The distribution of every token of a text of at most [`crate::tree::MAX_NODES`]
    /// tokens, each after those before it, by one pass.
    pub(super) fn along(&mut self, text: &[Token]) -> Result<Vec<Dist>, Error> {
        let mut draft = Draft::empty(self.model.info().vocab);
        let before = text.split_last().map_or(text, |(_, before)| before);
        before.iter().fold(None, |last, token| Some(draft.certain(last, *token)));
        let prompt = self.prompt;
        let rows = self.rows(prompt, &draft, Want::All)?;
        let each = rows.iter().enumerate();
        each.map(|(i, logits)| self.sampled(logits, prompt, &before[..i])).collect()
    }

    fn rows(
        &mut self,
        context: &[Token],
        draft: &Draft,
        want: Want<'_>,
    ) -> Result<Vec<Logits>, Error> {
        let work = Work { session: &mut self.session, context, draft, want };
        Ok(evaluate_one(self.model, work)?.rows)
    }

    fn sampled(
        &self,
        logits: &Logits,
        context: &[Token],
        drafted: &[Token],
    ) -> Result<Dist, Error> {
        let history = History { prompt_len: self.prompt.len(), context, drafted };
        self.sampler.distribution(logits, history).map_err(Error::distribution(self.who))
    }
}
