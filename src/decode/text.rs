//! Tokens to text, one token at a time and never in the middle of a character.

use crate::dist::Token;
use crate::model::{Codec, ModelError};

/// Decodes a growing sequence of tokens. A token may hold part of a UTF-8
/// character, and how a token is written may depend on the one before it, so
/// the stream decodes a short window and emits what is new and complete.
#[derive(Debug, Clone)]
pub struct TextStream<'a> {
    codec: &'a dyn Codec,
    tokens: Vec<Token>,
    /// Tokens before this one only serve as context for decoding.
    window: usize,
    /// Tokens before this one have been emitted.
    done: usize,
    text: String,
}

impl<'a> TextStream<'a> {
    /// A stream that continues after nothing.
    pub fn new(codec: &'a dyn Codec) -> Self {
        Self { codec, tokens: Vec::new(), window: 0, done: 0, text: String::new() }
    }

    /// Adds a token; what it completes is appended to [`Self::text`].
    ///
    /// # Errors
    /// If the token is unknown to the codec.
    pub fn push(&mut self, token: Token) -> Result<(), ModelError> {
        self.tokens.push(token);
        let before = self.codec.decode(&self.tokens[self.window..self.done])?;
        let now = self.codec.decode(&self.tokens[self.window..])?;
        // A replacement character at the end is an unfinished one, unless it
        // has been unfinished for longer than any UTF-8 character lasts.
        let unfinished = now.ends_with('\u{FFFD}') && self.tokens.len() - self.done < 4;
        if now.len() > before.len() && !unfinished {
            self.text.push_str(now.get(before.len()..).unwrap_or_default());
            self.window = self.done;
            self.done = self.tokens.len();
        }
        Ok(())
    }

    /// Emits what is left, unfinished characters as U+FFFD.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(&mut self) -> Result<(), ModelError> {
        let before = self.codec.decode(&self.tokens[self.window..self.done])?;
        let now = self.codec.decode(&self.tokens[self.window..])?;
        self.text.push_str(now.get(before.len()..).unwrap_or_default());
        self.window = self.done;
        self.done = self.tokens.len();
        Ok(())
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }
}
