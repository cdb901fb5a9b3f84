//! Text to tokens and back.

use crate::dist::Token;

use super::ModelError;

/// Turns text into tokens and tokens into text.
pub trait Codec: std::fmt::Debug {
    /// The tokens of a prompt, with the special tokens the model expects.
    ///
    /// # Errors
    /// If the text cannot be expressed.
    fn encode(&self, text: &str) -> Result<Vec<Token>, ModelError>;

    /// The text of tokens, special tokens left out. Bytes that are not (yet)
    /// UTF-8 come out as U+FFFD.
    ///
    /// # Errors
    /// If a token is unknown.
    fn decode(&self, tokens: &[Token]) -> Result<String, ModelError>;

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
    fn encode(&self, text: &str) -> Result<Vec<Token>, ModelError> {
        text.chars()
            .map(|c| {
                let token = u32::from(c).wrapping_sub(u32::from('a'));
                if (token as usize) < self.vocab { Ok(token) } else { Err(self.unknown(c)) }
            })
            .collect()
    }

    fn decode(&self, tokens: &[Token]) -> Result<String, ModelError> {
        Ok(tokens.iter().map(|&t| self.token_label(t)).collect())
    }

    fn token_label(&self, token: Token) -> String {
        char::from_u32(u32::from('a') + token).unwrap_or('?').to_string()
    }
}

impl Letters {
    fn unknown(&self, c: char) -> ModelError {
        let last = self.token_label(self.vocab.saturating_sub(1) as Token);
        ModelError::new(format!("a toy prompt may hold the letters a to {last} only, not {c:?}"))
    }
}
