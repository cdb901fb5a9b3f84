//! A target with its draft model, and a one-call interface from prompt to completion.

use crate::chance::{Request, Seeded};
use crate::clock::RealClock;
use crate::decode::{Generation, MethodSpec, NoObserver, StopReason, StopRules, Totals, generate};
use crate::distribution::Token;
use crate::draft::Tools;
use crate::error::Error;
use crate::model::{
    LanguageModel, Loaded, Role, Source, TranslatedModel, Vocabulary, check_pair, load,
};

/// A target and an optional draft model that uses the target's token ids.
#[derive(Debug)]
pub struct Pair {
    /// The model whose distribution is kept.
    pub target: Loaded,
    /// The model that proposes.
    pub draft: Option<Box<dyn LanguageModel>>,
}

/// A completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Its text.
    pub text: String,
    /// Its tokens.
    pub tokens: Vec<Token>,
    /// Why it ended.
    pub stop: Option<StopReason>,
    /// Its cost.
    pub totals: Totals,
}

impl Pair {
    /// A target without a draft model.
    ///
    /// # Errors
    /// One sentence that names the file and value at fault.
    pub fn load(target: impl Into<Source>) -> Result<Self, Error> {
        Ok(Self { target: load(target, Role::Target)?, draft: None })
    }

    /// The same target with a draft model.
    ///
    /// # Errors
    /// As [`Self::load`], or if the two models have different vocabularies.
    pub fn with_draft(self, draft: impl Into<Source>) -> Result<Self, Error> {
        self.with_draft_of(Vocabulary::Same, draft)
    }

    /// The same target with a draft model that proposes the tokens of `vocabulary`.
    ///
    /// # Errors
    /// As [`Self::with_draft`]; for [`Vocabulary::Intersection`] only if the two have no token in
    /// common, or if a tokenizer does not define the text of its tokens.
    pub fn with_draft_of(
        self,
        vocabulary: Vocabulary,
        draft: impl Into<Source>,
    ) -> Result<Self, Error> {
        let (target, Loaded { model, codec }) = (&self.target, load(draft, Role::Draft)?);
        let draft = match vocabulary {
            Vocabulary::Same => {
                check_pair(target.model.info(), model.info())?;
                model
            }
            Vocabulary::Intersection => {
                let target = (target.model.info(), &*target.codec);
                Box::new(TranslatedModel::new(target, (model, codec))?)
            }
        };
        Ok(Self { draft: Some(draft), ..self })
    }

    /// The draft model, if there is one.
    pub fn draft_model(&self) -> Option<&dyn LanguageModel> {
        self.draft.as_deref()
    }

    /// Generates a completion of at most `max_tokens` tokens. The same seed gives the same
    /// completion.
    ///
    /// # Errors
    /// If the method does not exist or does not suit the pair, the prompt cannot be
    /// encoded or leaves no room, or a model fails.
    pub fn generate(
        &self,
        prompt: &str,
        method: &MethodSpec,
        max_tokens: usize,
        seed: u64,
    ) -> Result<Completion, Error> {
        let (target, codec) = (&*self.target.model, &*self.target.codec);
        let tools = Tools { draft: self.draft_model(), target: Some(target), texts: None };
        let (method, stop) = (method.build_with(tools)?, StopRules::max_tokens(max_tokens));
        let tokens = codec.encode(prompt)?;
        let mut generation = Generation::new(target, method, &tokens, stop, Some(codec))?;
        let mut chance = Seeded::new(Request { seed, prompt, repeat: 0 });
        let clock = RealClock::default();
        let totals = generate(&mut generation, target, &mut chance, &clock, &mut NoObserver)?;
        Ok(Completion {
            text: generation.text().to_owned(),
            tokens: generation.new_tokens().to_vec(),
            stop: generation.stopped(),
            totals,
        })
    }
}
