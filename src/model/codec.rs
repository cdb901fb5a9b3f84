//! Text to tokens and back.

use crate::distribution::Token;
use crate::error::Error;

/// Turns text into tokens and tokens into text.
pub trait Codec: std::fmt::Debug {
    /// The tokens of a text, with the special tokens that the model expects around it;
    /// at least one. An empty text becomes the beginning-of-text token.
    ///
    /// No string in the text becomes a control token, in particular none that ends a
    /// text, unless [`Settings::special_tokens`](super::Settings::special_tokens) is
    /// set.
    ///
    /// # Errors
    /// If the text cannot be encoded, or if it is empty and there is no
    /// beginning-of-text token.
    fn encode(&self, text: &str) -> Result<Vec<Token>, Error>;

    /// A string in the text that names a control token but is encoded as plain text.
    fn control_string(&self, _text: &str) -> Option<String> {
        None
    }

    /// The text of tokens, special tokens left out. Bytes that are not (yet)
    /// UTF-8 come out as U+FFFD.
    ///
    /// # Errors
    /// If a token is unknown.
    fn decode(&self, tokens: &[Token]) -> Result<String, Error>;

    /// How one token is shown in a table, special tokens included.
    fn token_label(&self, token: Token) -> String;
}

/// The text of toy models: token 0 is `a`, token 1 is `b`, and so on.
#[derive(Debug, Clone, Copy)]
pub struct Letters {
    /// Number of tokens.
    pub vocab: usize,
}

impl Codec for Letters {
    fn encode(&self, text: &str) -> Result<Vec<Token>, Error> {
        if text.is_empty() {
            return Err(Error::input(
                "the prompt is empty, and a toy has no beginning-of-text token to start from: \
                 give at least one letter",
            ));
        }
        text.chars()
            .map(|c| {
                let token = u32::from(c).wrapping_sub(u32::from('a'));
                if (token as usize) < self.vocab { Ok(token) } else { Err(self.unknown(c)) }
            })
            .collect()
    }

    fn decode(&self, tokens: &[Token]) -> Result<String, Error> {
        Ok(tokens.iter().map(|&t| self.token_label(t)).collect())
    }

    fn token_label(&self, token: Token) -> String {
        char::from_u32(u32::from('a') + token).unwrap_or('?').to_string()
    }
}

impl Letters {
    fn unknown(&self, c: char) -> Error {
        let last = self.token_label(self.vocab.saturating_sub(1) as Token);
        Error::input(format!("a toy prompt may contain only the letters a to {last}, not {c:?}"))
    }
}
