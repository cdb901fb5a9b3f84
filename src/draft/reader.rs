//! A draft model as drafters read it: laws in, passes counted.

use std::rc::Rc;

use super::Round;
use crate::clock::{Clock, Who};
use crate::dist::{Dist, Token};
use crate::model::{LanguageModel, ModelError, Session, Want, Work, evaluate_one};
use crate::sampling::{History, Sampler};
use crate::tree::Draft;

/// A draft model with its session and sampler. The session reconciles with the
/// committed tokens by itself, so acceptance needs no bookkeeping here.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    model: &'a dyn LanguageModel,
    session: Session,
    sampler: Sampler,
}

impl<'a> Reader<'a> {
    /// A reader of `model`.
    ///
    /// # Errors
    /// If the model cannot open a session.
    pub(super) fn new(model: &'a dyn LanguageModel, sampler: Sampler) -> Result<Self, ModelError> {
        Ok(Self { session: model.session()?, model, sampler })
    }

    /// See [`super::Drafter::prefill`].
    pub(super) fn prefill(
        &mut self,
        prompt: &[Token],
        clock: &dyn Clock,
    ) -> Result<(), ModelError> {
        let Some((_, head)) = prompt.split_last().filter(|(_, head)| !head.is_empty()) else {
            return Ok(());
        };
        let draft = Draft::empty(self.model.info().vocab);
        let session = &mut self.session;
        let work = Work { session, context: head, draft: &draft, want: Want::Nothing };
        let computed = evaluate_one(self.model, work)?.computed;
        clock.forward(Who::Draft, computed);
        Ok(())
    }

    /// The processed laws of row `first` and of all rows after it, in one pass.
    pub(super) fn laws(
        &mut self,
        round: &mut Round<'_>,
        draft: &Draft,
        first: usize,
    ) -> Result<Vec<Rc<Dist>>, ModelError> {
        let (session, context) = (&mut self.session, round.context);
        let work = Work { session, context, draft, want: Want::From(first) };
        let evaluation = evaluate_one(self.model, work)?;
        round.clock.forward(Who::Draft, evaluation.computed);
        round.forwards += 1;
        let name = &self.model.info().name;
        let laws = (first..).zip(&evaluation.rows).map(|(row, logits)| {
            let drafted = row.checked_sub(1).map_or_else(Vec::new, |id| draft.tokens_to(id));
            let history = History { prompt_len: round.prompt_len, context, drafted: &drafted };
            let law = self.sampler.law(logits, history);
            law.map(Rc::new).map_err(|e| ModelError::new(format!("draft model {name}: {e}")))
        });
        laws.collect()
    }

    /// See [`super::Drafter::state_key`].
    pub(super) fn state_key(&mut self, context: &[Token]) -> Result<Vec<u8>, ModelError> {
        self.session.settle(context)?;
        Ok(self.session.state_key())
    }

    /// An independent copy.
    pub(super) fn fork(&self) -> Result<Self, ModelError> {
        let session = self.session.fork()?;
        Ok(Self { model: self.model, session, sampler: self.sampler.clone() })
    }
}
