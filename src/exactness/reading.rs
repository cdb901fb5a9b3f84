//! Computes a model's distributions after a prompt, without sampling from it.

use crate::distribution::{Dist, Token};
use crate::error::Error;
use crate::model::{LanguageModel, Session, Want, Work, evaluate_one};
use crate::sampling::{History, Logits, Sampler, SamplingParams};
use crate::tree::Draft;

/// A model that yields distributions after a prompt.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    /// The model's role in the pair, for error messages.
    who: &'static str,
    model: &'a dyn LanguageModel,
    session: Session,
    sampler: Sampler,
    prompt: &'a [Token],
}

impl<'a> Reading<'a> {
    /// A reading of `model` with its sampling parameters. Error messages call it `who`.
    pub(super) fn new(
        who: &'static str,
        model: &'a dyn LanguageModel,
        params: SamplingParams,
        prompt: &'a [Token],
    ) -> Result<Self, Error> {
        let sampler = Sampler::new(params)?;
        Ok(Self { who, model, session: model.session()?, sampler, prompt })
    }

    /// The distribution after a completion, by plain passes.
    #[cfg(feature = "engine")]
    pub(super) fn distribution(&mut self, completion: &[Token]) -> Result<Dist, Error> {
        let context = [self.prompt, completion].concat();
        let draft = Draft::empty(self.model.info().vocab);
        let rows = self.rows(&context, &draft, Want::Row(crate::tree::Row::CONTEXT))?;
        self.sampled(&rows[0], &context, &[])
    }

    /// The distribution at every token of a completion of at most [`crate::tree::MAX_NODES`]
    /// tokens, by one pass.
    pub(super) fn along(&mut self, completion: &[Token]) -> Result<Vec<Dist>, Error> {
        let mut draft = Draft::empty(self.model.info().vocab);
        let before = completion.split_last().map_or(completion, |(_, before)| before);
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
