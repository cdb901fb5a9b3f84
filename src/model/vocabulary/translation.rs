//! A context in the draft model's tokens.

use super::spelled::end_of_part;
use super::translator::{Beginning, ContextReading, TextReader, Translator};
use crate::core::distribution::Token;
use crate::model::Spelling;

/// The translation of the context that was read last, in pieces that a longer context can
/// go on from.
#[derive(Debug, Clone, Default)]
pub(super) struct Translation {
    begins: Beginning,
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

/// By what a text is read.
type ReadBy<'t> = (&'t Translator, &'t TextReader);

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
        match &by.reading {
            ContextReading::Numbers(vocab) => {
                let own = context.iter().filter(|&&token| (token as usize) < *vocab);
                self.tokens.clear();
                self.tokens.extend(own);
            }
            ContextReading::Text(_) if context == self.context && !self.tokens.is_empty() => {}
            ContextReading::Text(reader) => self.read_to(context, (by, reader)),
        }
        if self.tokens.is_empty() {
            self.tokens.push(by.filler);
        }
        &self.tokens
    }

    fn read_to(&mut self, context: &[Token], by: ReadBy<'_>) {
        self.return_to(context, by);
        for &token in &context[self.context.len()..] {
            self.read(token, by);
        }
        let start = self.start();
        let open = by.1.part(&self.text[start..], start == 0);
        self.tokens.clone_from(&self.fixed);
        self.tokens.extend(open);
    }

    /// Forgets what does not belong to `context`.
    fn return_to(&mut self, context: &[Token], (by, reader): ReadBy<'_>) {
        let begins = reader.begins(context, by);
        if begins != self.begins {
            *self = Self { begins, ..Self::default() };
        }
        let common = self.context.iter().zip(context).take_while(|(a, b)| a == b).count();
        self.context.truncate(common);
        self.ends.truncate(common);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
        self.parts.retain(|part| part.known <= common);
        let head = if begins.own { &by.head[..] } else { &[] };
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

    fn read(&mut self, token: Token, by: ReadBy<'_>) {
        let (Translator { shared, .. }, reader) = by;
        let in_head = self.context.len() < self.begins.left_out;
        let spelling = reader.spelling(token).filter(|_| !in_head);
        self.context.push(token);
        self.text.extend(spelling.map_or(&[][..], Spelling::bytes));
        self.ends.push(self.text.len());
        if matches!(spelling, Some(Spelling::Control(_))) {
            self.close(self.text.len(), shared.own(token), reader);
        }
        while let Some(length) = end_of_part(&self.text[self.start()..]) {
            self.close(self.start() + length, None, reader);
        }
    }

    /// Ends a part, after which a control token may follow.
    fn close(&mut self, end: usize, control: Option<Token>, reader: &TextReader) {
        let start = self.start();
        let tokens = reader.part(&self.text[start..end], start == 0);
        self.fixed.extend(tokens.into_iter().chain(control));
        self.parts.push(TextPart { known: self.context.len(), end, tokens: self.fixed.len() });
    }
}
