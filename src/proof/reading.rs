//! Computes a model's distributions after a prompt, without sampling from it.

use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::{Sampler, SamplingParams};
use crate::model::LanguageModel;
use crate::tapes::tape::{Teacher, distributions};

/// A model that yields distributions after a prompt.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    /// The model's role in the pair, for error messages.
    who: &'static str,
    teacher: Teacher<'a>,
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
        Ok(Self { who, teacher: Teacher::new(model)?, sampler: Sampler::new(params)?, prompt })
    }

    /// The distribution after a completion, by a plain pass.
    #[cfg(feature = "engine")]
    pub(super) fn distribution(&mut self, completion: &[Token]) -> Result<Dist, Error> {
        let context = [self.prompt, completion].concat();
        // The distribution at a token does not depend on the token.
        Ok(self.read(&context, &[0])?.swap_remove(0))
    }

    /// The distribution at every token of a completion of at most [`crate::core::tree::MAX_NODES`]
    /// tokens, by one pass.
    pub(super) fn along(&mut self, completion: &[Token]) -> Result<Vec<Dist>, Error> {
        self.read(self.prompt, completion)
    }

    fn read(&mut self, context: &[Token], part: &[Token]) -> Result<Vec<Dist>, Error> {
        let logits = self.teacher.logits(context, part)?;
        distributions(&self.sampler, (self.prompt.len(), context), part, &logits, self.who)
    }
}
