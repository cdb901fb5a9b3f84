//! Small GGUF vocabularies, random texts, and tokens found in the slowest possible way.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use specdec::checkpoint::GgmlVocabulary;
use specdec::core::distribution::Token;
use specdec::model::Codec;

/// Types of tokens.
pub(crate) const NORMAL: i32 = 1;
pub(crate) const UNKNOWN: i32 = 2;
pub(crate) const CONTROL: i32 = 3;
pub(crate) const USER_DEFINED: i32 = 4;
pub(crate) const BYTE: i32 = 6;

/// What random texts are made of. None of the letters carries a mark of its own, so the
/// classes of `char` are those of the patterns.
pub(crate) const FRAGMENTS: &[&str] = &[
    " ",
    " ",
    " ",
    "  ",
    "    ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "\u{a0}",
    "\u{3000}",
    "the",
    "The",
    "in",
    "on",
    "a",
    "Ж",
    "ле",
    "ß",
    "é",
    "中文",
    "字",
    "かな",
    "한글",
    "'s",
    "'S",
    "'ll",
    "'RE",
    "'",
    "''",
    "7",
    "42",
    "1000",
    "٣",
    "½",
    ".",
    "...",
    "!?",
    "-",
    "=",
    "==",
    "(",
    "{}",
    "/",
    "🦙",
    "👩‍🔬",
    "\u{301}",
    "õ",
    "<tool>",
    "<|end|>",
];

/// A text of up to `most` fragments.
pub(crate) fn random_text(most: usize, rng: &mut ChaCha8Rng) -> String {
    let length = rng.random_range(1..=most);
    (0..length).map(|_| FRAGMENTS[rng.random_range(0..FRAGMENTS.len())]).collect()
}

/// The codec of a vocabulary.
pub(crate) fn codec(vocabulary: &GgmlVocabulary, special_tokens: bool) -> Arc<dyn Codec> {
    vocabulary.codec(Path::new("model.gguf"), special_tokens).unwrap()
}

/// The one-line message with which a vocabulary is refused.
#[track_caller]
pub(crate) fn refusal(vocabulary: &GgmlVocabulary) -> String {
    let sentence = vocabulary.codec(Path::new("model.gguf"), false).unwrap_err().to_string();
    assert!(!sentence.contains('\n'), "more than one line: {sentence}");
    let sentence = sentence.strip_prefix("model.gguf: ").expect("the file is named");
    sentence.to_owned()
}

/// The ids of the tokens by name.
pub(crate) fn ids(vocabulary: &GgmlVocabulary) -> HashMap<&str, Token> {
    vocabulary.tokens.iter().map(String::as_str).zip(0..).collect()
}

/// Adds a token and returns its id.
pub(crate) fn add(vocabulary: &mut GgmlVocabulary, name: &str, kind: i32) -> Token {
    vocabulary.tokens.push(name.to_owned());
    vocabulary.types.push(kind);
    vocabulary.tokens.len() as Token - 1
}

/// A text in parts: the longest of `whole` that begin first, and what lies between.
pub(crate) fn parts<'a>(text: &'a str, whole: &[&str]) -> Vec<(&'a str, bool)> {
    let (mut parts, mut done, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let here = whole.iter().filter(|name| text[at..].starts_with(**name));
        match here.map(|name| name.len()).max() {
            Some(length) => {
                parts.push((&text[done..at], false));
                parts.push((&text[at..at + length], true));
                at += length;
                done = at;
            }
            None => at += text[at..].chars().next().unwrap().len_utf8(),
        }
    }
    parts.push((&text[done..], false));
    parts.retain(|(part, _)| !part.is_empty());
    parts
}
