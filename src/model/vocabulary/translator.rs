//! How a draft model reads the target's contexts.

use std::sync::Arc;

use super::SharedVocabulary;
use super::spelled::{Speller, complete};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::model::{Codec, ModelInfo, Spelling};

/// Turns contexts of the target into contexts of the draft model.
#[derive(Debug)]
pub(super) struct Translator {
    pub(super) shared: SharedVocabulary,
    /// What the draft model's tokenizer puts before a text.
    pub(super) head: Vec<Token>,
    /// What stands for nothing at all: an empty context, a token that cannot be drawn.
    pub(super) filler: Token,
    pub(super) reading: ContextReading,
}

/// How a context is read.
#[derive(Debug)]
pub(super) enum ContextReading {
    /// Number by number: all below the draft model's number of tokens.
    Numbers(usize),
    /// As text.
    Text(Box<TextReader>),
}

/// Reads a context as text.
///
/// It is cut into parts, at control tokens and at places that depend on the text
/// before them alone. The text of each part is encoded by the draft model's tokenizer;
/// bytes at the end that are no complete character become tokens for these bytes; a control
/// token becomes the shared one, or nothing. The draft model's tokens for the beginning of a
/// text stand in the place of the target's. So the result is a function of the context.
#[derive(Debug)]
pub(super) struct TextReader {
    /// The target's tokens.
    spellings: Vec<Option<Spelling>>,
    /// What the target's tokenizer puts before a text.
    head: Vec<Token>,
    /// Whether the target's tokenizer puts a space before a text, and the draft model's.
    spaced: [bool; 2],
    codec: Arc<dyn Codec>,
    speller: Speller,
}

/// What the beginning of a context becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Beginning {
    /// Number of the target's tokens that are left out.
    pub(super) left_out: usize,
    /// Whether the draft model's own beginning of a text comes in their place.
    pub(super) own: bool,
}

impl Translator {
    /// A translator of texts from the target's vocabulary to the draft model's.
    pub(super) fn of_texts(target: &dyn Codec, draft: Arc<dyn Codec>) -> Result<Self, Error> {
        let (spellings, own) = (target.spellings()?, draft.spellings()?);
        let (shared, head) = (SharedVocabulary::new(&spellings, &own), draft.head());
        let reader = TextReader {
            head: target.head(),
            spaced: [is_spaced(target, &spellings), is_spaced(&*draft, &own)],
            speller: Speller::new(&own),
            codec: draft,
            spellings,
        };
        Self::sharing(shared, head, ContextReading::Text(Box::new(reader)))
    }

    /// A translator between vocabularies with the same numbers.
    pub(super) fn of_numbers(
        (target, codec): (&ModelInfo, &dyn Codec),
        (draft, own): (&ModelInfo, &dyn Codec),
    ) -> Result<Self, Error> {
        let (spellings, others) = (codec.spellings()?, own.spellings()?);
        let shared = SharedVocabulary::prefix(&spellings, &others).map_err(|token| {
            let [one, other] = [codec, own].map(|codec| codec.token_label(token));
            Error::input(format!(
                "token {token} of target {} is {one:?} and of draft {} {other:?}: vocabulary = \
                 \"prefix\" is for equal tokens; \"intersection\" drafts the tokens that both have",
                target.name, draft.name
            ))
        })?;
        Self::sharing(shared, own.head(), ContextReading::Numbers(draft.vocab))
    }

    fn sharing(
        shared: SharedVocabulary,
        head: Vec<Token>,
        reading: ContextReading,
    ) -> Result<Self, Error> {
        let Some((_, filler)) = shared.pairs().next() else {
            return Err(Error::input("target and draft share no token: nothing can be drafted"));
        };
        Ok(Self { shared, head, filler, reading })
    }
}

impl TextReader {
    pub(super) fn spelling(&self, token: Token) -> Option<&Spelling> {
        self.spellings.get(token as usize)?.as_ref()
    }

    /// What the beginning of a context becomes. A template may begin a text otherwise than the
    /// target's tokenizer does: then the draft model reads that, too.
    pub(super) fn begins(&self, context: &[Token], by: &Translator) -> Beginning {
        let Some(rest) = context.strip_prefix(&self.head[..]) else { return Beginning::default() };
        let mut rest = rest.iter().map(|&token| by.shared.own(token));
        let written = by.head.iter().all(|&token| rest.next() == Some(Some(token)));
        Beginning { left_out: self.head.len(), own: !written }
    }

    /// The tokens of a part of the text; `first` if nothing is before it.
    pub(super) fn part(&self, text: &[u8], first: bool) -> Vec<Token> {
        // The tokenizer will put a space before the part, which it has already, or which the
        // target's tokenizer had put there.
        let removed = if first { self.spaced[0] } else { self.spaced[1] };
        let text = text.strip_prefix(b" ").filter(|_| removed).unwrap_or(text);
        let (whole, rest) = text.split_at(complete(text));
        let tokens = self.codec.encode_part(&String::from_utf8_lossy(whole));
        // Any tokens will do: what cannot be encoded is spelled.
        let mut tokens = tokens.unwrap_or_else(|_| self.speller.spell(whole));
        tokens.extend(self.speller.spell(rest));
        tokens
    }
}

/// Whether a tokenizer puts a space before a text.
fn is_spaced(codec: &dyn Codec, spellings: &[Option<Spelling>]) -> bool {
    let tokens = codec.encode_part("a").unwrap_or_default();
    let first = tokens.first().and_then(|&token| spellings.get(token as usize)?.as_ref());
    first.is_some_and(|spelling| spelling.bytes().starts_with(b" "))
}
