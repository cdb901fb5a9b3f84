//! Byte-level BPE from GGUF files: tokens as a naive implementation finds them.

use std::collections::HashMap;
use std::path::Path;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use specdec::checkpoint::{GgmlVocabulary, load};
use specdec::core::distribution::Token;
use specdec::model::Role;

use crate::fixtures::seeded;
use crate::ggml::support::{
    CONTROL, NORMAL, USER_DEFINED, add, codec, ids, parts, random_text, refusal,
};

/// How a text is split into words.
#[derive(Debug, Clone, Copy)]
enum Words {
    /// As for GPT-2, after every digit has been split off if `digits`.
    Gpt2 { digits: bool },
    /// As for GPT-4, with at most this number of digits in a word, and contractions or not.
    Gpt4 { digits: usize, contractions: bool },
}

/// Pre-tokenizers by the name in the file, with whether a word that is a token stays whole.
const PRE: &[(&str, Words, bool)] = &[
    ("gpt-2", Words::Gpt2 { digits: false }, false),
    ("smollm", Words::Gpt2 { digits: true }, false),
    ("llama-bpe", Words::Gpt4 { digits: 3, contractions: true }, true),
    ("dbrx", Words::Gpt4 { digits: 3, contractions: true }, false),
    ("qwen2", Words::Gpt4 { digits: 1, contractions: true }, false),
    ("ufakzeka", Words::Gpt4 { digits: 1, contractions: false }, false),
];

/// A word that is a token, but that no merges make.
const WHOLE: &str = "The";

impl Words {
    /// Where the word that begins at `at` ends.
    fn end(self, text: &[char], at: usize) -> usize {
        match self {
            Self::Gpt2 { digits: true } if text[at].is_numeric() => at + 1,
            Self::Gpt2 { digits } => {
                // A digit by itself is a text of its own, and so is what lies before it.
                let digit = text[at..].iter().position(|c| digits && c.is_numeric());
                gpt2_end(&text[..digit.map_or(text.len(), |d| at + d)], at)
            }
            Self::Gpt4 { digits, contractions } => gpt4_end(text, at, digits, contractions),
        }
    }

    fn split(self, text: &str) -> Vec<String> {
        let text = text.chars().collect::<Vec<_>>();
        let (mut words, mut at) = (Vec::new(), 0);
        while at < text.len() {
            let end = self.end(&text, at);
            words.push(text[at..end].iter().collect());
            at = end;
        }
        words
    }
}

fn class(c: char) -> char {
    match c {
        _ if c.is_alphabetic() => 'L',
        _ if c.is_numeric() => 'N',
        _ if c.is_whitespace() => 'S',
        _ => 'O',
    }
}

/// The end of a run of characters that satisfy `is`.
fn run(text: &[char], from: usize, is: impl Fn(char) -> bool) -> usize {
    from + text[from..].iter().take_while(|c| is(**c)).count()
}

fn contraction(text: &[char], at: usize) -> Option<usize> {
    let endings = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
    let found = endings.iter().find(|e| text[at..].iter().collect::<String>().starts_with(**e));
    found.map(|ending| at + ending.len())
}

/// White space up to the next word, to which its last character belongs.
fn space_end(text: &[char], at: usize) -> usize {
    let end = run(text, at, char::is_whitespace);
    if end < text.len() && end > at + 1 { end - 1 } else { end }
}

fn gpt2_end(text: &[char], at: usize) -> usize {
    if let Some(end) = contraction(text, at) {
        return end;
    }
    let from = if text[at] == ' ' && at + 1 < text.len() { at + 1 } else { at };
    match class(text[from]) {
        'S' => space_end(text, at),
        kind => run(text, from, |c| class(c) == kind),
    }
}

fn gpt4_end(text: &[char], at: usize, digits: usize, contractions: bool) -> usize {
    let lower = text.iter().map(char::to_ascii_lowercase).collect::<Vec<_>>();
    let found = contractions.then(|| contraction(&lower, at)).flatten();
    if let Some(end) = found {
        return end;
    }
    let letters = |from: usize| run(text, from, |c| class(c) == 'L');
    let breaks = |c: char| c == '\n' || c == '\r';
    let kind = class(text[at]);
    if kind == 'L' || (kind != 'N' && !breaks(text[at]) && letters(at + 1) > at + 1) {
        return letters(at + 1);
    }
    if kind == 'N' {
        return run(text, at, char::is_numeric).min(at + digits);
    }
    let from = if text[at] == ' ' { at + 1 } else { at };
    let others = run(text, from, |c| class(c) == 'O');
    if others > from {
        return run(text, others, breaks);
    }
    let spaces = &text[at..run(text, at, char::is_whitespace)];
    match spaces.iter().rposition(|c| breaks(*c)) {
        Some(last) => at + last + 1,
        None => space_end(text, at),
    }
}

/// How the bytes are written: the visible ones of Latin-1 as themselves, the others as the
/// characters from U+0100 on.
fn written(bytes: &[u8]) -> String {
    let visible = |b: u8| (33..127).contains(&b) || (161..173).contains(&b) || b >= 174;
    let other = |b: u8| 256 + (0..b).filter(|b| !visible(*b)).count() as u32;
    let code = |b: u8| if visible(b) { u32::from(b) } else { other(b) };
    bytes.iter().map(|b| char::from_u32(code(*b)).unwrap()).collect()
}

/// Merges the pair of the lowest rank, the leftmost first, until there is none.
fn merged(word: &str, merges: &HashMap<String, usize>) -> Vec<String> {
    let mut names = written(word.as_bytes()).chars().map(String::from).collect::<Vec<_>>();
    loop {
        let rank = |at: &usize| merges.get(&names[*at..*at + 2].join(" "));
        let ranked = (0..names.len() - 1).filter_map(|at| Some((*rank(&at)?, at)));
        let Some((_, at)) = ranked.min() else { return names };
        let right = names.remove(at + 1);
        names[at] += &right;
    }
}

fn ranks(vocabulary: &GgmlVocabulary) -> HashMap<String, usize> {
    vocabulary.merges.iter().cloned().zip(0..).collect()
}

/// All bytes that occur in texts, and merges of neighbours in random texts.
fn vocabulary(pre: &str, words: Words, rng: &mut ChaCha8Rng) -> GgmlVocabulary {
    let mut made = GgmlVocabulary {
        model: "gpt2".to_owned(),
        pre: Some(pre.to_owned()),
        add_bos: Some(false),
        ..Default::default()
    };
    for byte in (0..=u8::MAX).filter(|byte| *byte != 0xF5) {
        add(&mut made, &written(&[byte]), NORMAL);
    }
    while made.merges.len() < 250 {
        let text = random_text(8, rng);
        let word = &words.split(&text)[0];
        let names = merged(word, &ranks(&made));
        if names.len() < 2 {
            continue;
        }
        let at = rng.random_range(0..names.len() - 1);
        let token = names[at..at + 2].concat();
        if !made.tokens.contains(&token) && token != WHOLE {
            add(&mut made, &token, NORMAL);
            made.merges.push(names[at..at + 2].join(" "));
        }
    }
    made
}

/// The tokens of a text without user-defined tokens.
fn expected(vocabulary: &GgmlVocabulary, words: Words, whole: bool, text: &str) -> Vec<Token> {
    let (ids, ranks) = (ids(vocabulary), ranks(vocabulary));
    let mut found = Vec::new();
    for word in words.split(text) {
        match ids.get(written(word.as_bytes()).as_str()) {
            Some(id) if whole => found.push(*id),
            _ => found.extend(merged(&word, &ranks).iter().map(|name| ids[name.as_str()])),
        }
    }
    found
}

#[test]
fn texts_have_the_tokens_of_naive_merging() {
    for (pre, words, whole) in PRE {
        let mut rng = seeded(31);
        let mut vocabulary = vocabulary(pre, *words, &mut rng);
        add(&mut vocabulary, WHOLE, NORMAL);
        let codec = codec(&vocabulary, false);
        for _ in 0..300 {
            let text = random_text(12, &mut rng);
            let ids = codec.encode(&text).unwrap();
            assert_eq!(ids, expected(&vocabulary, *words, *whole, &text), "{pre}: {text:?}");
            assert_eq!(codec.decode(&ids).unwrap(), text, "{pre}");
        }
    }
}

#[test]
fn user_tokens_come_first_and_control_tokens_if_allowed() {
    let (pre, words, whole) = PRE[4];
    let mut rng = seeded(32);
    let mut vocabulary = vocabulary(pre, words, &mut rng);
    // The last one is how the byte 0xF5 would be written.
    let user_defined = ["    ", "<tool>", "\n\n", "õ"];
    let whole_ids = user_defined.map(|name| add(&mut vocabulary, name, USER_DEFINED));
    let end = add(&mut vocabulary, "<|end|>", CONTROL);
    let (plain, special) = (codec(&vocabulary, false), codec(&vocabulary, true));
    let (mut with, mut controls) = (0, 0);
    for _ in 0..300 {
        let text = random_text(12, &mut rng);
        let mut ids = Vec::new();
        for (part, is_whole) in parts(&text, &user_defined) {
            match user_defined.iter().position(|name| *name == part) {
                Some(at) if is_whole => ids.push(whole_ids[at]),
                _ => ids.extend(expected(&vocabulary, words, whole, part)),
            }
        }
        with += usize::from(ids.iter().any(|id| whole_ids.contains(id)));
        assert_eq!(plain.encode(&text).unwrap(), ids, "{text:?}");
        assert_eq!(plain.decode(&ids).unwrap(), text);
        let special = special.encode(&text).unwrap();
        let count = special.iter().filter(|id| **id == end).count();
        assert_eq!(count, text.matches("<|end|>").count(), "{text:?}");
        controls += count;
    }
    assert!(with > 50 && controls > 20, "{with} texts, {controls} control tokens");
}

#[test]
fn texts_begin_and_end_as_the_file_says() {
    let mut rng = seeded(33);
    let mut vocabulary = vocabulary("gpt-2", PRE[0].1, &mut rng);
    let begin = add(&mut vocabulary, "<s>", CONTROL);
    let end = add(&mut vocabulary, "<e>", CONTROL);
    let (bos, eos) = (Some(begin), Some(end));
    let plain = codec(&vocabulary, false).encode("the").unwrap();
    let with = |pre: &str, add_bos, add_eos, text: &str| {
        let pre = Some(pre.to_owned());
        let vocabulary = GgmlVocabulary { pre, bos, eos, add_bos, add_eos, ..vocabulary.clone() };
        codec(&vocabulary, false).encode(text).unwrap()
    };
    let framed = |before: &[Token], after: &[Token]| [before, &plain, after].concat();
    assert_eq!(with("gpt-2", None, None, "the"), plain);
    assert_eq!(with("gpt-2", Some(true), None, "the"), framed(&[begin], &[]));
    assert_eq!(with("gpt-2", None, Some(true), "the"), framed(&[], &[end]));
    assert_eq!(with("gpt-2", Some(true), Some(true), "the"), framed(&[begin], &[end]));
    for pre in ["llama-bpe", "tekken"] {
        assert_eq!(with(pre, None, None, "the")[0], begin, "{pre}");
        assert_ne!(with(pre, Some(false), None, "the")[0], begin, "{pre}");
    }
    for add_bos in [Some(true), Some(false), None] {
        assert_eq!(with("gpt-2", add_bos, None, ""), [begin], "an empty text");
    }
    let missing = GgmlVocabulary { add_bos: Some(true), ..vocabulary };
    let said = "tokenizer.ggml.bos_token_id does not say which";
    assert!(refusal(&missing).contains(said), "{}", refusal(&missing));
}

#[test]
fn a_byte_without_a_token_is_named() {
    let mut rng = seeded(34);
    let vocabulary = vocabulary("gpt-2", PRE[0].1, &mut rng);
    let mut lacking = vocabulary.clone();
    let at = lacking.tokens.iter().position(|name| *name == written(&[7])).unwrap();
    lacking.tokens[at] = "<7>".to_owned();
    assert_eq!(codec(&vocabulary, false).encode("\u{7}").unwrap(), [7]);
    for text in ["\u{7}", "a\u{7}", "\u{7}a b"] {
        let error = codec(&lacking, false).encode(text).unwrap_err().to_string();
        let said = "model.gguf: the text cannot be tokenised: it contains the byte 0x07, for which \
                    there is no token";
        assert_eq!(error, said);
    }
}

#[test]
fn the_embedded_models_have_the_same_tokens_in_both_formats() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/target");
    let json = std::fs::read(folder.join("tokenizer.json")).unwrap();
    let json = serde_json::from_slice::<Value>(&json).unwrap();
    let vocab = json["model"]["vocab"].as_object().unwrap();
    let mut tokens =
        vocab.iter().map(|(name, id)| (id.as_u64(), name.as_str())).collect::<Vec<_>>();
    tokens.sort_unstable();
    let special =
        |name: &str| json["added_tokens"].as_array().unwrap().iter().any(|t| t["content"] == name);
    let kind = |name: &str| if special(name) { CONTROL } else { NORMAL };
    let merges = json["model"]["merges"].as_array().unwrap().iter();
    let vocabulary = GgmlVocabulary {
        model: "gpt2".to_owned(),
        pre: Some("ufakzeka".to_owned()),
        types: tokens.iter().map(|(_, name)| kind(name)).collect(),
        tokens: tokens.into_iter().map(|(_, name)| name.to_owned()).collect(),
        merges: merges
            .map(|m| format!("{} {}", m[0].as_str().unwrap(), m[1].as_str().unwrap()))
            .collect(),
        bos: Some(0),
        add_bos: Some(true),
        ..Default::default()
    };
    let (file, ours) = (folder.to_str().unwrap(), codec(&vocabulary, false));
    let other = load(file, Role::Target).unwrap().codec;
    let mut rng = seeded(35);
    for _ in 0..300 {
        let text = random_text(20, &mut rng);
        let ids = ours.encode(&text).unwrap();
        assert_eq!(ids, other.encode(&text).unwrap(), "{text:?}");
        assert_eq!(ours.decode(&ids).unwrap(), other.decode(&ids).unwrap());
    }
}
