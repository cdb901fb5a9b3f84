//! What drafts of a toy pair: one model for each kind.

use super::toy_block::{MASK, ROWS, ToyBlock};
use super::toy_head::{ToyFirstLayers, ToyHead};
use super::{LanguageModel, ParallelModel, ToyDrafts, ToyPair};
use crate::core::error::Error;

impl ToyPair {
    /// What drafts: the draft as a model, as a head, or as the target's first layers.
    ///
    /// # Errors
    /// As [`Self::target`].
    pub fn drafter(&self, name: &str) -> Result<Box<dyn LanguageModel>, Error> {
        let draft = self.draft(name)?;
        Ok(match self.drafts {
            ToyDrafts::Model => Box::new(draft),
            ToyDrafts::Head => Box::new(ToyHead::new(draft, None)?),
            ToyDrafts::WrongHead(fault) => Box::new(ToyHead::new(draft, Some(fault))?),
            ToyDrafts::Block => Box::new(ToyBlock::new(draft)?),
            ToyDrafts::Parallel => Box::new(ParallelModel::new(Box::new(draft), MASK, ROWS)),
            ToyDrafts::FirstLayers => Box::new(ToyFirstLayers::new(draft, false)),
            ToyDrafts::StaleFirstLayers => Box::new(ToyFirstLayers::new(draft, true)),
        })
    }
}
