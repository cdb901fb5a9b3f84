//! What the codec of a vocabulary does not show: words, and the tokens that end a text.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

use super::GgmlVocabulary;
use super::byte_level::words;
use super::pre_tokenizers::{NAMES, named};

/// Texts, and by pre-tokenizer how many characters each of their words has. Written by
/// `experiments/94-gguf-vocabularies/words.py`.
#[derive(Deserialize)]
struct Fixture {
    texts: Vec<String>,
    words: BTreeMap<String, Vec<Vec<usize>>>,
}

const FIXTURE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/ggml_words.json"));

/// How many characters each word of a text has.
fn lengths(words: &Sequence, text: &str) -> Vec<usize> {
    let mut parts = PreTokenizedString::from(text);
    words.pre_tokenize(&mut parts).unwrap();
    let parts = parts.get_splits(OffsetReferential::Original, OffsetType::Byte);
    parts.iter().map(|(_, (start, end), _)| text[*start..*end].chars().count()).collect()
}

#[test]
fn every_pre_tokenizer_splits_texts_where_the_reference_does() {
    let fixture = serde_json::from_str::<Fixture>(FIXTURE).unwrap();
    for (name, expected) in &fixture.words {
        let words = words(named(name).unwrap()).unwrap();
        for (text, expected) in fixture.texts.iter().zip(expected) {
            assert_eq!(lengths(&words, text), *expected, "{name}: {text:?}");
        }
    }
    let checked = fixture.words.keys().map(|name| named(name).unwrap().patterns);
    let checked = checked.collect::<Vec<_>>();
    for (name, pre) in NAMES {
        assert!(checked.contains(&pre.patterns), "no words for {name}");
    }
}

/// Bytes and these tokens, with their types.
fn vocabulary(more: &[(&str, i32)]) -> GgmlVocabulary {
    let bytes = (0..=u8::MAX).map(|byte| (format!("<0x{byte:02X}>"), 6));
    let more = more.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
    let (tokens, types): (Vec<_>, Vec<_>) = bytes.chain(more).unzip();
    let scores = vec![0.0; tokens.len()];
    GgmlVocabulary { model: "llama".to_owned(), tokens, types, scores, ..Default::default() }
}

const FILE: &str = "model.gguf";

#[test]
fn end_tokens_come_from_three_keys_and_from_known_names() {
    let names = [("a", 1), ("<|im_end|>", 3), ("<|eot_id|>", 4), ("</s>", 1), ("b", 3)];
    let plain = vocabulary(&names);
    let ends = |vocabulary: &GgmlVocabulary| {
        let tokenizer = vocabulary.tokenizer(Path::new(FILE), 300, false).unwrap();
        tokenizer.ends().to_vec()
    };
    assert_eq!(ends(&plain), [2, 257, 258], "the usual one and the two names");
    let given = GgmlVocabulary { eos: Some(256), eot: Some(260), eom: Some(256), ..plain };
    assert_eq!(ends(&given), [256, 257, 258, 260]);
}

#[test]
fn rows_without_a_token_are_not_part_of_the_vocabulary() {
    let names = [("", 1), ("a", 1), ("[PAD258]", 5), ("b", 1), ("[PAD260]", 4), ("[PAD261]", 2)];
    let vocabulary = vocabulary(&names);
    let tokenizer = vocabulary.tokenizer(Path::new(FILE), 300, false).unwrap();
    assert_eq!((tokenizer.vocab(), tokenizer.unused()), (260, vec![256, 258]));
    let without = vocabulary.tokenizer(Path::new(FILE), 260, false).unwrap();
    assert_eq!(without.fingerprint(), tokenizer.fingerprint());
    let error = vocabulary.tokenizer(Path::new(FILE), 259, false).unwrap_err().to_string();
    let said = "model.gguf: token \"b\" has the id 259, but the number of rows of \
                token_embd.weight is 259";
    assert_eq!(error, said);
}
