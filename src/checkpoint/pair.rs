//! A target with its draft model, and a one-call interface from prompt to completion.

use crate::checkpoint::{heads, load};
use crate::core::chance::{Request, Seeded};
use crate::core::clock::RealClock;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::engine::Source;
use crate::method::decode::{
    Generation, MethodSpec, NoObserver, StopReason, StopRules, Totals, generate,
};
use crate::method::draft::Tools;
use crate::model::{LanguageModel, Loaded, Role, TranslatedModel, Vocabulary, check_pair};

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
    /// As [`Self::with_draft`]. For [`Vocabulary::Prefix`] if tokens other than control tokens
    /// differ, for [`Vocabulary::Intersection`] if the two have no token in common, and for both
    /// if a tokenizer does not define the text of its tokens.
    pub fn with_draft_of(
        self,
        vocabulary: Vocabulary,
        draft: impl Into<Source>,
    ) -> Result<Self, Error> {
        let (target, draft) = (&self.target, draft.into());
        if heads::is_head(&draft.path) {
            let head = heads::load(&draft, &*target.model)?;
            return Ok(Self { draft: Some(head), ..self });
        }
        let Loaded { model, codec } = load(draft, Role::Draft)?;
        let own = (target.model.info(), &*target.codec);
        let equal = own.0.tokenizer_sha256 == model.info().tokenizer_sha256;
        let draft: Box<dyn LanguageModel> = match vocabulary {
            Vocabulary::Same => {
                check_pair(own, (model.info(), &*codec))?;
                model
            }
            Vocabulary::Intersection if !equal => {
                Box::new(TranslatedModel::new(own, (model, codec))?)
            }
            // In equal tokenizers, a text keeps the tokens that it has.
            Vocabulary::Prefix | Vocabulary::Intersection => {
                Box::new(TranslatedModel::prefix(own, (model, codec))?)
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
