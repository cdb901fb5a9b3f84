//! The source of the target's distributions.

use anyhow::Result;
#[cfg(feature = "serve")]
use anyhow::{Context, bail};

use crate::checkpoint::pair::Pair;
use crate::cli::models::open_pair;
use crate::cli::options::ModelArgs;
use crate::core::error::Error;
use crate::core::sampling::SamplingParams;
use crate::model::LanguageModel;
use crate::tapes::recording::compile_grammars;
use crate::tapes::tape::Tape;

#[cfg(feature = "serve")]
use crate::cli::models::open_draft;
#[cfg(feature = "serve")]
use crate::cli::some_prompts::SomePrompts;
#[cfg(feature = "serve")]
use crate::gather::{ScoringServer, ScoringSettings};
#[cfg(feature = "serve")]
use crate::tapes::recording::TapePrompt;

/// Where the distributions come from.
#[derive(Debug)]
pub(super) enum Scorer {
    /// From models of this program.
    Models(Pair),
    /// The target's from a server.
    #[cfg(feature = "serve")]
    Server {
        /// The server.
        target: Box<ScoringServer>,
        /// The draft model, if one is named.
        draft: Option<Box<dyn LanguageModel>>,
    },
}

impl Scorer {
    /// Loads the target, and the draft model if one is named.
    pub(super) fn of_models(args: &ModelArgs) -> Result<Self> {
        Ok(Self::Models(open_pair(args, false, args.draft.is_some())?.0))
    }

    /// Requests a first distribution from a server, and loads the draft model if one is named.
    #[cfg(feature = "serve")]
    pub(super) fn of_server(scoring: ScoringSettings<'_>, args: &ModelArgs) -> Result<Self> {
        let draft = args.draft.as_ref().map(|_| open_draft(args)).transpose()?;
        let draft = draft.map(|(loaded, _)| loaded.model);
        let known = draft.as_ref().map(|draft| draft.info().vocab);
        let vocab = scoring.vocab.or(known);
        let target = ScoringSettings { vocab, ..scoring }.open().context("--target-url")?;
        let (own, known) = (target.info().vocab, known.unwrap_or(target.info().vocab));
        if own != known {
            bail!(
                "the server of --target-url has {own} tokens and the draft model has {known}: they \
                 must share one vocabulary"
            );
        }
        Ok(Self::Server { target: Box::new(target), draft })
    }

    /// The model that gives the target's distributions, and the draft model, if it is known.
    pub(super) fn models(&self) -> (&dyn LanguageModel, Option<&dyn LanguageModel>) {
        match self {
            Self::Models(pair) => (&*pair.target.model, pair.draft_model()),
            #[cfg(feature = "serve")]
            Self::Server { target, draft } => (&**target, draft.as_deref()),
        }
    }

    /// Makes the rules of the grammars that completions followed. A server has no tokenizer for it.
    pub(super) fn compile_grammars(&self, tape: &mut Tape) -> Result<(), Error> {
        match self {
            Self::Models(pair) => compile_grammars(tape, &pair.target),
            #[cfg(feature = "serve")]
            Self::Server { .. } => Ok(()),
        }
    }

    /// Checks that the distributions of completions with this sampling setting are known.
    pub(super) fn check(&self, sampling: SamplingParams) -> Result<()> {
        #[cfg(feature = "serve")]
        if let Self::Server { target, .. } = self {
            return target.check(sampling);
        }
        let _ = sampling;
        Ok(())
    }

    /// Whether the distribution before all processors is known, too.
    pub(super) fn knows_raw_target(&self) -> bool {
        match self {
            Self::Models(_) => true,
            #[cfg(feature = "serve")]
            Self::Server { target, .. } => !target.is_partial(),
        }
    }

    /// Prompts that leave room for `new` tokens.
    #[cfg(feature = "serve")]
    pub(super) fn prompts(&self, prompts: &SomePrompts, new: usize) -> Result<Vec<TapePrompt>> {
        match self {
            Self::Models(pair) => prompts.chosen(pair, new),
            Self::Server { target, .. } => {
                let most = target.info().context_length.saturating_sub(new);
                let vocab = target.info().vocab;
                let encode = |text: &str| target.encode(text);
                prompts.chosen_by(most, |prompt| prompt.asked.encode_alone(vocab, encode))
            }
        }
    }
}
