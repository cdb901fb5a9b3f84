//! Finds tokens by their bytes.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::model::{Codec, Spelling};

/// The tokens of a vocabulary by their bytes.
#[derive(Debug)]
pub(super) struct Spellings<'a> {
    codec: &'a dyn Codec,
    /// None for bytes that several tokens stand for. Built when it is first needed, since some
    /// tokenizers cannot list the bytes of their tokens.
    tokens: Option<BTreeMap<Vec<u8>, Option<Token>>>,
}

impl<'a> Spellings<'a> {
    pub(super) fn new(codec: &'a dyn Codec) -> Self {
        Self { codec, tokens: None }
    }

    /// The only token that stands for these bytes; a control token stands for those of its name.
    ///
    /// # Errors
    /// If the tokenizer does not say what its tokens stand for.
    pub(super) fn token(&mut self, bytes: &[u8]) -> Result<Option<Token>, Error> {
        let tokens = match &mut self.tokens {
            Some(tokens) => tokens,
            none => none.insert(by_bytes(self.codec)?),
        };
        Ok(tokens.get(bytes).copied().flatten())
    }

    /// The tokens of a text, if they decode to it.
    pub(super) fn of_text(&self, text: &str) -> Result<Option<Vec<Token>>> {
        let tokens = self.codec.encode_part(text)?;
        Ok((self.codec.decode(&tokens)? == text).then_some(tokens))
    }
}

fn by_bytes(codec: &dyn Codec) -> Result<BTreeMap<Vec<u8>, Option<Token>>, Error> {
    let mut tokens = BTreeMap::new();
    for (id, spelling) in (0..).zip(codec.spellings()?) {
        let bytes = match spelling {
            None => continue,
            Some(Spelling::Control(name)) => name.into_bytes(),
            Some(spelled) => spelled.bytes().to_vec(),
        };
        tokens.entry(bytes).and_modify(|twice| *twice = None).or_insert(Some(id));
    }
    Ok(tokens)
}
