//! The tokens of a vocabulary, by id: what they are called and what they are for.

use std::collections::HashMap;

use tokenizers::AddedToken;
use tokenizers::models::bpe::Vocab;

use super::GgmlVocabulary;
use crate::core::distribution::Token;

/// Values of `tokenizer.ggml.token_type`.
pub(super) const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// What llama.cpp takes for the end of a text or a turn by its name: files rarely list all
/// the tokens that end one.
const ENDS: &[&str] = &[
    "</s>",
    "<eos>",
    "<EOT>",
    "_<EOT>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<turn|>",
    "<｜end▁of▁sentence｜>",
];

/// The tokens of Phi-3 that keep the white space after them.
const KEEP_SPACE: &[&str] = &["<unk>", "<s>", "<|endoftext|>"];

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenUse {
    /// A piece of text or a byte, found by merging.
    Piece,
    /// A user-defined token: its name is found in texts before anything is merged.
    Whole,
    /// A control token, which stands for no text.
    Control,
    /// A row of the model that belongs to no token.
    Padding,
}

/// The tokens of a vocabulary.
#[derive(Debug)]
pub(super) struct TokenNames<'a> {
    names: &'a [String],
    uses: Vec<TokenUse>,
}

impl<'a> TokenNames<'a> {
    /// Reads the tokens of a vocabulary.
    ///
    /// # Errors
    /// If there are none, two have the same name, or their types are incomplete.
    pub(super) fn read(vocabulary: &'a GgmlVocabulary) -> Result<Self, String> {
        let (names, types) = (&vocabulary.tokens, &vocabulary.types);
        if names.is_empty() {
            return Err("tokenizer.ggml.tokens is missing or empty".to_owned());
        }
        if !types.is_empty() && types.len() < names.len() {
            let (types, tokens) = (types.len(), names.len());
            let what = format!("tokenizer.ggml.token_type has {types} values for {tokens} tokens");
            return Err(what);
        }
        let kind = |id: usize| types.get(id).copied().unwrap_or(NORMAL);
        let uses = names.iter().enumerate().map(|(id, name)| token_use(name, kind(id))).collect();
        let names = Self { names, uses };
        names.refuse_duplicates()?;
        Ok(names)
    }

    fn refuse_duplicates(&self) -> Result<(), String> {
        let mut seen = HashMap::with_capacity(self.names.len());
        for (id, name) in self.iter() {
            if let Some(first) = seen.insert(name, id) {
                let name = short(name);
                return Err(format!("tokenizer.ggml.tokens: {first} and {id} are both {name}"));
            }
        }
        Ok(())
    }

    /// The ids that belong to tokens, with the names of these.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Token, &'a str)> {
        let ids = (0..).zip(self.names.iter().zip(&self.uses));
        let real = ids.filter(|(_, (_, kind))| **kind != TokenUse::Padding);
        real.map(|(id, (name, _))| (id, name.as_str()))
    }

    /// The name of a token.
    pub(super) fn name(&self, id: Token) -> Option<&'a str> {
        let real = self.uses.get(id as usize).is_some_and(|kind| *kind != TokenUse::Padding);
        real.then(|| self.names[id as usize].as_str())
    }

    /// What the tokens are for, by id.
    pub(super) fn uses(&self) -> &[TokenUse] {
        &self.uses
    }

    /// The map from name to id.
    pub(super) fn vocab(&self) -> Vocab {
        self.iter().map(|(id, name)| (name.to_owned(), id)).collect()
    }

    /// Checks that an id that the file gives under `key` belongs to a token.
    pub(super) fn check(&self, key: &str, id: Token) -> Result<(), String> {
        if self.name(id).is_some() {
            return Ok(());
        }
        let last = self.names.len() - 1;
        Err(format!("tokenizer.ggml.{key} is {id}, which is no token: allowed are 0 to {last}"))
    }

    /// The tokens that end a text by their names.
    pub(super) fn ends(&self) -> impl Iterator<Item = Token> {
        let control = |id: Token| self.uses[id as usize] == TokenUse::Control;
        self.iter().filter(move |(id, name)| control(*id) && ENDS.contains(name)).map(|(id, _)| id)
    }

    /// The tokens that are found in texts by their names. `model` is the model's name.
    pub(super) fn added(&self, model: &str) -> Vec<AddedToken> {
        let model = model.to_lowercase();
        let phi3 = model.contains("phi-3") || model.contains("phi3");
        let added = self.iter().filter(|(id, _)| self.uses[*id as usize] != TokenUse::Piece);
        let added = added.map(|(id, name)| {
            AddedToken::from(name, self.uses[id as usize] == TokenUse::Control)
                .normalized(false)
                .rstrip(phi3 && !KEEP_SPACE.contains(&name))
        });
        added.collect()
    }
}

fn token_use(name: &str, kind: i32) -> TokenUse {
    match kind {
        _ if name.is_empty() => TokenUse::Padding,
        UNKNOWN | USER_DEFINED | UNUSED if is_padding(name) => TokenUse::Padding,
        UNKNOWN | CONTROL => TokenUse::Control,
        // Some converters call every added token user-defined.
        USER_DEFINED if ENDS.contains(&name) => TokenUse::Control,
        USER_DEFINED => TokenUse::Whole,
        _ => TokenUse::Piece,
    }
}

/// Whether a converter made up this name for a row of the model that has no token:
/// `[PAD151665]`.
fn is_padding(name: &str) -> bool {
    let number = name.strip_prefix("[PAD").and_then(|rest| rest.strip_suffix(']'));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A name in quotes, as it is shown in an error.
pub(super) fn short(name: &str) -> String {
    format!("\"{}\"", cut(name))
}

/// The first characters of a name, on one line.
pub(super) fn cut(name: &str) -> String {
    const MOST: usize = 40;
    match name.char_indices().nth(MOST) {
        Some((cut, _)) => format!("{}…", name[..cut].escape_debug()),
        None => name.escape_debug().to_string(),
    }
}
