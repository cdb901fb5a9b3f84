//! A context in the draft model's tokens.

use std::sync::Arc;

use super::SharedVocabulary;
use super::spelled::{Speller, complete, end_of_part};
use crate::distribution::Token;
use crate::error::Error;
use crate::model::{Codec, Spelling};

/// Turns contexts of the target into contexts of the draft model.
///
/// A context is cut into parts, at control tokens and at places that depend on the text
/// before them alone. The text of each part is encoded by the draft model's tokenizer;
/// bytes at the end that are no complete character become tokens for these bytes; a control
/// token becomes the shared one, or nothing. The draft model's tokens for the beginning of a
/// text stand in the place of the target's. So the result is a function of the context.
#[derive(Debug)]
pub(super) struct Translator {
    pub(super) shared: SharedVocabulary,
    /// The target's tokens.
    spellings: Vec<Option<Spelling>>,
    /// What the target's tokenizer puts before a text, and what the draft model's does.
    heads: [Vec<Token>; 2],
    /// Whether the target's tokenizer puts a space before a text, and the draft model's.
    spaced: [bool; 2],
    codec: Arc<dyn Codec>,
    speller: Speller,
    /// What stands for nothing at all: an empty context, a token that cannot be drawn.
    pub(super) filler: Token,
}

impl Translator {
    /// A translator from the target's vocabulary to the draft model's.
    pub(super) fn new(target: &dyn Codec, draft: Arc<dyn Codec>) -> Result<Self, Error> {
        let (spellings, own) = (target.spellings()?, draft.spellings()?);
        let shared = SharedVocabulary::new(&spellings, &own);
        let Some((_, filler)) = shared.pairs().next() else {
            return Err(Error::input("target and draft share no token: nothing can be drafted"));
        };
        // A tokenizer that puts nothing there cannot encode an empty text.
        let head = |codec: &dyn Codec| codec.encode("").unwrap_or_default();
        let heads = [head(target), head(&*draft)];
        let spaced = [is_spaced(target, &spellings), is_spaced(&*draft, &own)];
        let speller = Speller::new(&own);
        Ok(Self { shared, spellings, heads, spaced, codec: draft, speller, filler })
    }

    /// The same with another idea of what is shared.
    pub(super) fn sharing(self, shared: SharedVocabulary) -> Self {
        Self { shared, ..self }
    }

    /// What the draft model's tokenizer puts before a text.
    pub(super) fn head(&self) -> &[Token] {
        &self.heads[1]
    }

    /// The tokens of a part of the text; `first` if nothing is before it.
    fn part(&self, text: &[u8], first: bool) -> Vec<Token> {
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

/// The translation of the context that was read last, in pieces that a longer context can
/// go on from.
#[derive(Debug, Clone, Default)]
pub(super) struct Translation {
    /// The target's tokens.
    context: Vec<Token>,
    /// The text of all of them, and its length after each.
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The parts that will not change, in order, and the tokens of all of them.
    parts: Vec<TextPart>,
    fixed: Vec<Token>,
    /// The tokens of all parts.
    tokens: Vec<Token>,
}

/// A part of a text, and what it ends with.
#[derive(Debug, Clone, Copy)]
struct TextPart {
    /// Number of the target's tokens that had been read when its end was known.
    known: usize,
    /// Where it ends in the text.
    end: usize,
    /// Where its tokens end.
    tokens: usize,
}

impl Translation {
    /// The draft model's tokens for a context: at least one.
    pub(super) fn of(&mut self, context: &[Token], by: &Translator) -> &[Token] {
        if context == self.context && !self.tokens.is_empty() {
            return &self.tokens;
        }
        self.return_to(context, by);
        for &token in &context[self.context.len()..] {
            self.read(token, by);
        }
        let start = self.start();
        let open = by.part(&self.text[start..], start == 0);
        self.tokens.clone_from(&self.fixed);
        self.tokens.extend(open);
        if self.tokens.is_empty() {
            self.tokens.push(by.filler);
        }
        &self.tokens
    }

    /// Forgets what does not belong to `context`.
    fn return_to(&mut self, context: &[Token], by: &Translator) {
        let common = self.context.iter().zip(context).take_while(|(a, b)| a == b).count();
        self.context.truncate(common);
        self.ends.truncate(common);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
        self.parts.retain(|part| part.known <= common);
        let head = by.head();
        let fixed = self.parts.last().map_or(head.len(), |part| part.tokens);
        self.fixed.truncate(fixed);
        if self.fixed.is_empty() {
            self.fixed.extend(head);
        }
    }

    /// Where the part begins that is being read.
    fn start(&self) -> usize {
        self.parts.last().map_or(0, |part| part.end)
    }

    fn read(&mut self, token: Token, by: &Translator) {
        let in_head = by.heads[0].get(self.context.len()) == Some(&token);
        let spelling = by.spellings.get(token as usize).and_then(Option::as_ref);
        self.context.push(token);
        self.text.extend(spelling.map_or(&[][..], Spelling::bytes));
        self.ends.push(self.text.len());
        if matches!(spelling, Some(Spelling::Control(_))) && !in_head {
            self.close(self.text.len(), by.shared.own(token), by);
        }
        while let Some(length) = end_of_part(&self.text[self.start()..]) {
            self.close(self.start() + length, None, by);
        }
    }

    /// Ends a part, after which a control token may follow.
    fn close(&mut self, end: usize, control: Option<Token>, by: &Translator) {
        let start = self.start();
        let tokens = by.part(&self.text[start..end], start == 0);
        self.fixed.extend(tokens.into_iter().chain(control));
        self.parts.push(TextPart { known: self.context.len(), end, tokens: self.fixed.len() });
    }
}
