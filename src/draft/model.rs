//! A separate draft model, sampled autoregressively.

use std::rc::Rc;

use super::{BuildDrafter, Drafter, Round};
use crate::clock::{Clock, Who};
use crate::dist::Token;
use crate::model::{LanguageModel, ModelError, Session, Want, Work, evaluate_one};
use crate::registry::Entry;
use crate::sampling::{History, Sampler};
use crate::tree::{Draft, DraftShape};

/// Its line in the registry.
pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "model",
    aliases: &["draft_model", "assistant_model"],
    class: None,
    shape: Some(DraftShape { branches: false, sampled: true, certain: false }),
    summary: "a smaller model of the same vocabulary, sampled token by token",
    paper: "Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023, arXiv 2302.01318",
    build: |params| {
        let model = params.model.ok_or_else(|| {
            ModelError::new("drafter \"model\" needs a draft model: set \"draft\"")
        })?;
        Ok(Box::new(ModelDrafter::new(model, params.sampler.clone())?))
    },
};

/// Drafts with a model of its own. Its session reconciles with the committed
/// tokens by itself, so acceptance needs no bookkeeping here.
#[derive(Debug)]
pub struct ModelDrafter<'a> {
    model: &'a dyn LanguageModel,
    session: Session,
    sampler: Sampler,
}

impl<'a> ModelDrafter<'a> {
    /// A drafter over `model`.
    ///
    /// # Errors
    /// If the model cannot open a session.
    pub fn new(model: &'a dyn LanguageModel, sampler: Sampler) -> Result<Self, ModelError> {
        Ok(Self { session: model.session()?, model, sampler })
    }
}

impl<'a> Drafter<'a> for ModelDrafter<'a> {
    fn prefill(&mut self, prompt: &[Token], clock: &dyn Clock) -> Result<(), ModelError> {
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

    fn propose(&mut self, round: &mut Round<'_>) -> Result<Draft, ModelError> {
        let mut draft = Draft::empty(round.vocab);
        let mut parent = None;
        while round.go_on(&draft) {
            let work = Work {
                session: &mut self.session,
                context: round.context,
                draft: &draft,
                want: Want::Row(draft.len()),
            };
            let evaluation = evaluate_one(self.model, work)?;
            round.clock.forward(Who::Draft, evaluation.computed);
            round.forwards += 1;
            let drafted = parent.map_or_else(Vec::new, |id| draft.tokens_to(id));
            let history =
                History { prompt_len: round.prompt_len, context: round.context, drafted: &drafted };
            let law = self.sampler.law(&evaluation.rows[0], history).map_err(|e| {
                ModelError::new(format!("draft model {}: {e}", self.model.info().name))
            })?;
            parent = Some(draft.sample(parent, &Rc::new(law), round.chance));
        }
        Ok(draft)
    }

    fn state_key(&mut self, context: &[Token]) -> Result<Vec<u8>, ModelError> {
        self.session.settle(context)?;
        Ok(self.session.state_key())
    }

    fn fork(&self) -> Result<Box<dyn Drafter<'a> + 'a>, ModelError> {
        Ok(Box::new(Self {
            model: self.model,
            session: self.session.fork()?,
            sampler: self.sampler.clone(),
        }))
    }
}
