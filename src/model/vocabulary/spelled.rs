//! Spelling bytes with a draft model's tokens, and where a text may be cut.

use std::collections::HashMap;

use crate::core::distribution::Token;
use crate::model::Spelling;

/// A text is encoded in parts of this many bytes and a little more, so that a longer text
/// costs no more per round. Up to `FURTHEST` a part ends before a space, where tokenizers
/// end words, so that its tokens are those that it has in the whole text.
const PART: usize = 256;
const FURTHEST: usize = 1024;
/// The longest token that is looked up, in bytes.
const LONGEST: usize = 16;

/// Where the first part of a text ends, if the text goes beyond it. What follows that place
/// does not change it.
pub(super) fn end_of_part(text: &[u8]) -> Option<usize> {
    let may_end = |&at: &usize| match (text[at - 1], text[at]) {
        (before, b' ') => !before.is_ascii_whitespace() || at >= FURTHEST,
        (_, byte) => at >= FURTHEST && !is_inside_character(byte),
    };
    (PART..text.len()).find(may_end)
}

fn is_inside_character(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// The number of bytes before a character that is not complete yet at the end of a text.
pub(super) fn complete(text: &[u8]) -> usize {
    let last = text.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let unfinished = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    text.len() - if unfinished { last.len() } else { 0 }
}

/// The tokens of a vocabulary by their bytes.
#[derive(Debug)]
pub(super) struct Speller(HashMap<Vec<u8>, Token>);

impl Speller {
    /// Of a vocabulary whose spellings are given by id.
    pub(super) fn new(spellings: &[Option<Spelling>]) -> Self {
        let all = (0..).zip(spellings).filter_map(|(token, s)| Some((s.as_ref()?.bytes(), token)));
        let short = all.filter(|(bytes, _)| (1..=LONGEST).contains(&bytes.len()));
        Self(short.map(|(bytes, token)| (bytes.to_vec(), token)).collect())
    }

    /// Tokens of these bytes, each the longest that comes next. A byte without a token is
    /// left out.
    pub(super) fn spell(&self, mut bytes: &[u8]) -> Vec<Token> {
        let mut tokens = Vec::new();
        while !bytes.is_empty() {
            let lengths = (1..=LONGEST.min(bytes.len())).rev();
            let found = lengths.filter_map(|len| Some((len, *self.0.get(&bytes[..len])?))).next();
            tokens.extend(found.map(|(_, token)| token));
            bytes = &bytes[found.map_or(1, |(len, _)| len)..];
        }
        tokens
    }
}
