//! A separate draft model, sampled autoregressively.

use super::reader::Reader;
use super::{BuildDrafter, DRAFT_SAMPLING, Drafter, Pausing, Round};
use crate::core::error::Error;
use crate::core::registry::Entry;
use crate::core::sampling::Sampler;
use crate::core::tree::{Draft, DraftShape, Row};
use crate::model::LanguageModel;

pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "model",
    aliases: &["draft_model", "assistant_model"],
    params: &DRAFT_SAMPLING,
    summary: "a smaller model, sampled token by token",
    paper: "Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023, arXiv 2302.01318",
    build: BuildDrafter {
        needs_model: true,
        shape: |_| Ok(DraftShape::SAMPLED),
        make: |params| {
            Ok(Box::new(ModelDrafter::new(params.model("model")?, params.sampler.clone())?))
        },
    },
};

/// Drafts a chain with a draft model.
#[derive(Debug)]
pub struct ModelDrafter<'a>(Reader<'a>);

impl<'a> ModelDrafter<'a> {
    /// A drafter that uses `model`.
    ///
    /// # Errors
    /// If the model cannot open a session.
    pub fn new(model: &'a dyn LanguageModel, sampler: Sampler) -> Result<Self, Error> {
        Ok(Self(Reader::new(model, sampler)?))
    }
}

impl<'a> Drafter<'a> for ModelDrafter<'a> {
    fn reader(&mut self) -> Option<&mut Reader<'a>> {
        Some(&mut self.0)
    }

    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            self.0.limit(round)?;
            let mut draft = Draft::empty(round.vocab);
            let mut parent = None;
            while round.go_deeper(&draft) {
                let rows = vec![Row::after(parent)];
                let predictions = self.0.predict(round, &mut draft, rows).await?;
                let worth = predictions.first().filter(|next| round.is_worth(next));
                let Some(prediction) = worth else { break };
                parent = Some(round.draw_predicted(&mut draft, parent, prediction));
            }
            Ok(draft)
        })
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        Ok(Box::new(Self(self.0.try_clone()?)))
    }
}
