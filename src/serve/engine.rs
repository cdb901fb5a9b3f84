//! The models of a server, and what all completions have in common.

use super::ServeSettings;
use super::logprobs::TokenSpellings;
use super::meters::Meters;
use crate::bugs::Mutant;
use crate::checkpoint::pair::Pair;
use crate::core::chance::{Chance, Seeded};
use crate::core::error::Error;
use crate::core::sampling::SamplingParams;
use crate::io::input::read_text;
use crate::method::decode::{Method, MethodSpec};
use crate::method::draft::{Texts, Tools};
use crate::model::{Codec, LanguageModel, ModelInfo};

/// What is served.
#[derive(Debug)]
pub struct ServedPair<'p> {
    /// The models.
    pub pair: &'p Pair,
    /// How they decode; each request has sampling settings of its own.
    pub spec: MethodSpec,
    /// A known-wrong method in its place.
    pub mutant: Option<&'static Mutant>,
}

/// The models, and what all completions have in common.
#[derive(Debug)]
pub(super) struct ServingEngine<'p> {
    pub(super) served: ServedPair<'p>,
    /// The target as clients know it: their messages have its served name, and no path.
    pub(super) info: ModelInfo,
    text_files: Texts<'p>,
    pub(super) spellings: TokenSpellings,
    pub(super) settings: ServeSettings,
    pub(super) meters: Meters,
}

impl<'p> ServingEngine<'p> {
    pub(super) fn new(served: ServedPair<'p>, settings: ServeSettings) -> Result<Self, Error> {
        let target = &served.pair.target;
        let engine = Self {
            spellings: TokenSpellings::new(&*target.codec, target.model.info().vocab)?,
            info: ModelInfo { name: settings.model.clone(), ..target.model.info().clone() },
            text_files: Texts::new(&*target.codec, read_text),
            meters: Meters::new(&settings),
            served,
            settings,
        };
        engine.method(engine.served.spec.sampling.clone())?;
        Ok(engine)
    }

    pub(super) fn target(&self) -> &dyn LanguageModel {
        &*self.served.pair.target.model
    }

    pub(super) fn codec(&self) -> &dyn Codec {
        &*self.served.pair.target.codec
    }

    pub(super) fn method(&self, sampling: SamplingParams) -> Result<Method<'_>, Error> {
        let spec = MethodSpec { sampling, ..self.served.spec.clone() };
        let draft = self.served.pair.draft_model();
        let tools = Tools { draft, target: Some(self.target()), texts: Some(&self.text_files) };
        match self.served.mutant {
            Some(mutant) => mutant.method(&spec, tools),
            None => spec.build_with(tools),
        }
    }

    /// The random numbers of a completion, which a known-wrong method may spoil.
    pub(super) fn chance<'c>(&self, chance: &'c mut Seeded) -> Box<dyn Chance + 'c> {
        match self.served.mutant {
            Some(mutant) => mutant.wrap(chance),
            None => Box::new(chance),
        }
    }
}
