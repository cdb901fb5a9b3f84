//! Decodes tokens to text one token at a time, without splitting a character.

use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::model::Codec;

/// A longer run of U+FFFD cannot be an incomplete character: a character has at most
/// four bytes, and a tokenizer that writes one U+FFFD per byte may also write those of
/// the character before.
const LONGEST_RUN: usize = 12 * '\u{FFFD}'.len_utf8();

/// Decodes a growing sequence of tokens. A token may hold part of a UTF-8 character, and its text
/// may depend on the token before it. So the stream decodes a short window and emits what is new
/// and complete.
#[derive(Debug, Clone)]
pub struct TextStream<'a> {
    codec: &'a dyn Codec,
    tokens: Vec<Token>,
    /// Tokens before this index are no longer needed.
    window: usize,
    /// Tokens from `window` up to this index only serve as context.
    done: usize,
    /// Bytes of the window's text that have been emitted.
    emitted: usize,
    text: String,
}

impl<'a> TextStream<'a> {
    /// An empty stream.
    pub fn new(codec: &'a dyn Codec) -> Self {
        Self { codec, tokens: Vec::new(), window: 0, done: 0, emitted: 0, text: String::new() }
    }

    /// Adds a token and appends complete new text to [`Self::text`].
    ///
    /// # Errors
    /// If the token is unknown to the codec.
    pub fn push(&mut self, token: Token) -> Result<(), Error> {
        self.tokens.push(token);
        let now = self.codec.decode(&self.tokens[self.window..])?;
        // A replacement character at the end may still become another character.
        let mut complete = now.trim_end_matches('\u{FFFD}').len();
        if now.len() - complete > LONGEST_RUN {
            complete = now.len();
        }
        let grew = self.emit(&now[..complete]);
        if grew && complete == now.len() {
            self.window = self.done;
            self.done = self.tokens.len();
            self.emitted = self.codec.decode(&self.tokens[self.window..])?.len();
        }
        Ok(())
    }

    /// Emits the rest, with unfinished characters as U+FFFD.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(&mut self) -> Result<(), Error> {
        let now = self.codec.decode(&self.tokens[self.window..])?;
        self.emit(&now);
        Ok(())
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Appends the part of the window's text that has not been emitted. Returns whether there was
    /// any.
    fn emit(&mut self, window: &str) -> bool {
        let new = window.get(self.emitted..).unwrap_or_default();
        self.text.push_str(new);
        self.emitted += new.len();
        !new.is_empty()
    }
}
