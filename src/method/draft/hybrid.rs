//! Prompt lookup if it finds a match, else the draft model.

use super::model::ModelDrafter;
use super::prompt_lookup::{MATCH, MAX, MIN, PromptLookup};
use super::reader::Reader;
use super::{BuildDrafter, Drafter, Pausing, Round, with_draft_sampling};
use crate::core::error::Error;
use crate::core::registry::Entry;
use crate::core::tree::DraftShape;

pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "hybrid",
    aliases: &[],
    params: with_draft_sampling!(MAX, MIN, MATCH),
    summary: "prompt lookup if it finds a match, else the draft model",
    paper: "cf. Hu et al. 2024, arXiv 2411.10666 (retrieval with a fallback)",
    build: BuildDrafter {
        needs_model: true,
        shape: |params| {
            PromptLookup::check(params)?;
            Ok(DraftShape { certain: true, ..DraftShape::SAMPLED })
        },
        make: |params| {
            let model = ModelDrafter::new(params.model("hybrid")?, params.sampler.clone())?;
            let lookup = PromptLookup::new(params.params);
            Ok(Box::new(Hybrid { lookup, model: Box::new(model) }))
        },
    },
};

#[derive(Debug)]
struct Hybrid<'a> {
    lookup: PromptLookup,
    model: Box<dyn Drafter<'a> + 'a>,
}

impl<'a> Drafter<'a> for Hybrid<'a> {
    fn reader(&mut self) -> Option<&mut Reader<'a>> {
        self.model.reader()
    }

    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            let found = self.lookup.propose(round).await?;
            if found.is_empty() { self.model.propose(round).await } else { Ok(found) }
        })
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        Ok(Box::new(Self { lookup: self.lookup, model: self.model.try_clone()? }))
    }
}
