//! `tokenizer.json` as a [`Codec`].

use std::path::Path;

use sha2::{Digest, Sha256};
use tokenizers::Tokenizer;

use super::config::fault;
use crate::dist::Token;
use crate::model::toy::hex;
use crate::model::{Codec, ModelError};

/// A tokenizer of the Hugging Face format.
#[derive(Debug)]
pub(super) struct HfTokenizer {
    tokenizer: Tokenizer,
    vocab: usize,
}

impl HfTokenizer {
    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// If it is missing, not a tokenizer, or empty.
    pub(super) fn read(file: &Path) -> Result<Self, ModelError> {
        let bytes = std::fs::read(file)
            .map_err(|e| ModelError::new(format!("cannot read {}: {e}", file.display())))?;
        let mut tokenizer = Tokenizer::from_bytes(&bytes)
            .map_err(|e| fault(file, format!("not a tokenizer: {e}")))?;
        // Settings of somebody's training batches; a prompt is neither cut nor
        // filled up.
        tokenizer.with_truncation(None).map_err(|e| fault(file, e.to_string()))?;
        tokenizer.with_padding(None);
        let largest = tokenizer.get_vocab(true).into_values().max();
        let Some(largest) = largest else { return Err(fault(file, "the vocabulary is empty")) };
        Ok(Self { tokenizer, vocab: largest as usize + 1 })
    }

    /// Number of tokens, added ones included: the largest id and one.
    pub(super) fn vocab(&self) -> usize {
        self.vocab
    }

    /// The ids below [`Self::vocab`] that stand for nothing.
    pub(super) fn unused(&self) -> Vec<Token> {
        let known = |&id: &Token| self.tokenizer.id_to_token(id).is_some();
        (0..self.vocab as Token).filter(|id| !known(id)).collect()
    }

    /// SHA-256 of the sorted map from token to id: models that agree in it may
    /// exchange tokens.
    pub(super) fn fingerprint(&self) -> String {
        let mut tokens = self.tokenizer.get_vocab(true).into_iter().collect::<Vec<_>>();
        tokens.sort();
        let mut hash = Sha256::new();
        for (token, id) in tokens {
            hash.update((token.len() as u64).to_le_bytes());
            hash.update(token);
            hash.update(id.to_le_bytes());
        }
        hex(&hash.finalize())
    }
}

impl Codec for HfTokenizer {
    fn encode(&self, text: &str) -> Result<Vec<Token>, ModelError> {
        let encoding = self
            .tokenizer
            .encode_fast(text, true)
            .map_err(|e| ModelError::new(format!("the prompt cannot be tokenised: {e}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    fn decode(&self, tokens: &[Token]) -> Result<String, ModelError> {
        if let Some(token) = tokens.iter().find(|&&t| t as usize >= self.vocab) {
            return Err(ModelError::new(format!("the tokenizer has no token {token}")));
        }
        self.tokenizer
            .decode(tokens, true)
            .map_err(|e| ModelError::new(format!("tokens cannot be turned into text: {e}")))
    }

    fn token_label(&self, token: Token) -> String {
        match self.tokenizer.decode(&[token], false) {
            Ok(text) if !text.is_empty() && !text.contains('\u{FFFD}') => text,
            // Part of a character: its name in the vocabulary tells more.
            _ => self.tokenizer.id_to_token(token).unwrap_or_else(|| format!("#{token}")),
        }
    }
}
