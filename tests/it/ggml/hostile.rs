//! GGUF vocabularies that are damaged or absurd: one sentence, no panic, no hang.

use rand::RngExt;
use specdec::checkpoint::GgmlVocabulary;
use specdec::core::distribution::Token;

use crate::fixtures::seeded;
use crate::ggml::support::{
    BYTE, CONTROL, FRAGMENTS, NORMAL, USER_DEFINED, add, random_text, refusal,
};

/// Bytes, letters and two merges.
fn byte_level() -> GgmlVocabulary {
    let mut made = GgmlVocabulary { model: "gpt2".to_owned(), ..Default::default() };
    for c in ('!'..='~').chain('\u{a1}'..='\u{ac}').chain('\u{ae}'..='\u{143}') {
        add(&mut made, &c.to_string(), NORMAL);
    }
    for name in ["th", "the"] {
        add(&mut made, name, NORMAL);
    }
    made.merges = vec!["t h".to_owned(), "th e".to_owned()];
    made.eos = Some(add(&mut made, "<|endoftext|>", CONTROL));
    made
}

/// Control tokens, bytes and letters.
fn sentence_piece() -> GgmlVocabulary {
    let mut made = GgmlVocabulary { model: "llama".to_owned(), ..Default::default() };
    for name in ["<unk>", "<s>", "</s>"] {
        add(&mut made, name, CONTROL);
    }
    for byte in 0..=u8::MAX {
        add(&mut made, &format!("<0x{byte:02X}>"), BYTE);
    }
    for name in ["▁", "t", "h", "th", "▁th"] {
        add(&mut made, name, NORMAL);
    }
    made.scores = (0..made.tokens.len()).map(|id| -(id as f32)).collect();
    made
}

#[track_caller]
fn refused(mut vocabulary: GgmlVocabulary, spoil: impl FnOnce(&mut GgmlVocabulary), said: &str) {
    spoil(&mut vocabulary);
    let sentence = refusal(&vocabulary);
    assert!(sentence.contains(said), "{sentence:?} does not say {said:?}");
}

#[test]
fn unknown_kinds_are_refused_with_the_known_ones() {
    let models = "unknown tokenizer.ggml.model \"bert\": allowed are gpt2, llama, gemma4";
    refused(byte_level(), |v| v.model = "bert".to_owned(), models);
    refused(byte_level(), |v| v.model.clear(), "unknown tokenizer.ggml.model \"\"");
    let near = "unknown tokenizer.ggml.pre \"qwen3\" (did you mean \"qwen2\"?): allowed are default, gpt-2,";
    refused(byte_level(), |v| v.pre = Some("qwen3".to_owned()), near);
    let long = "x\ny".repeat(10_000);
    refused(byte_level(), |v| v.pre = Some(long.clone()), "unknown tokenizer.ggml.pre \"x\\nyx");
    refused(byte_level(), |v| v.model = long.clone(), "unknown tokenizer.ggml.model \"x\\nyx");
}

#[test]
fn incomplete_lists_are_refused() {
    refused(byte_level(), |v| v.tokens.clear(), "tokenizer.ggml.tokens is missing or empty");
    refused(byte_level(), |v| v.merges.clear(), "tokenizer.ggml.merges is missing or empty");
    let short = "tokenizer.ggml.token_type has 7 values for 259 tokens";
    refused(byte_level(), |v| v.types.truncate(7), short);
    let short = "tokenizer.ggml.scores has 7 values for 264 tokens";
    refused(sentence_piece(), |v| v.scores.truncate(7), short);
    refused(sentence_piece(), |v| v.scores.clear(), "tokenizer.ggml.scores has 0 values");
    let lacks = "tokenizer.ggml.tokens lacks the byte <0x41>";
    refused(sentence_piece(), |v| v.tokens[3 + 0x41] = "<0x4>".to_owned(), lacks);
    let nan = "tokenizer.ggml.scores: the score of token 260 is not a number";
    refused(sentence_piece(), |v| v.scores[260] = f32::NAN, nan);
    // Without types every token is a piece of text, which is no fault.
    let mut plain = byte_level();
    plain.types.clear();
    assert!(plain.codec("model.gguf".as_ref(), false).is_ok());
}

#[test]
fn tokens_of_the_same_name_are_refused() {
    let twice = "tokenizer.ggml.tokens: 3 and 9 are both \"$\"";
    refused(byte_level(), |v| v.tokens[9] = v.tokens[3].clone(), twice);
    let long = |v: &mut GgmlVocabulary| {
        v.tokens[4] = "a\n".repeat(1_000_000);
        v.tokens[5] = v.tokens[4].clone();
    };
    refused(byte_level(), long, "tokenizer.ggml.tokens: 4 and 5 are both \"a\\na\\n");
}

#[test]
fn merges_that_make_no_token_are_refused() {
    for (merge, said) in [
        ("th", "tokenizer.ggml.merges: \"th\", at 1, does not have two parts"),
        ("", "\"\", at 1, does not have two parts"),
        (" th", "\" th\", at 1, does not have two parts"),
        ("t ", "needs \"\", which is no token"),
        ("x yz", "needs \"yz\", which is no token"),
        ("yz x", "needs \"yz\", which is no token"),
        ("x y", "needs \"xy\", which is no token"),
        ("t h e", "needs \"h e\", which is no token"),
    ] {
        refused(byte_level(), |v| v.merges[1] = merge.to_owned(), said);
    }
    // A merge that is repeated counts where it is first, so nothing goes round in circles.
    let mut once = byte_level();
    add(&mut once, "he", NORMAL);
    once.merges = ["t h", "h e"].map(str::to_owned).to_vec();
    let mut repeated = once.clone();
    repeated.merges.extend(["t h", "t h"].map(str::to_owned));
    let ids = |v: &GgmlVocabulary| v.codec("f".as_ref(), false).unwrap().encode("the").unwrap();
    assert_eq!(ids(&repeated), ids(&once));
    assert_eq!(ids(&once)[0], 256, "the token \"th\"");
}

#[test]
fn ids_out_of_range_are_refused() {
    type Spoil = fn(&mut GgmlVocabulary);
    let keys: [(&str, Spoil); 4] = [
        ("bos", |v| v.bos = Some(259)),
        ("eos", |v| v.eos = Some(Token::MAX)),
        ("eot", |v| v.eot = Some(259)),
        ("eom", |v| v.eom = Some(259)),
    ];
    for (key, spoil) in keys {
        refused(byte_level(), spoil, &format!("tokenizer.ggml.{key}_token_id is "));
        refused(byte_level(), spoil, "which is no token: allowed are 0 to 258");
    }
    let padding = |v: &mut GgmlVocabulary| {
        v.eos = Some(add(v, "[PAD259]", USER_DEFINED));
    };
    refused(byte_level(), padding, "tokenizer.ggml.eos_token_id is 259, which is no token");
    // Types that do not exist make pieces of text.
    let mut odd = byte_level();
    odd.types.iter_mut().for_each(|kind| *kind = i32::MIN);
    assert!(odd.codec("f".as_ref(), false).is_ok());
}

#[test]
fn long_tokens_and_long_texts_take_little_time() {
    let mut vocabulary = sentence_piece();
    // Every run of `t` up to 2000 is a token, and one token has 200,000 characters.
    for length in 2..2000 {
        add(&mut vocabulary, &"t".repeat(length), NORMAL);
    }
    add(&mut vocabulary, &"h".repeat(200_000), USER_DEFINED);
    vocabulary.scores.resize(vocabulary.tokens.len(), 0.0);
    let codec = vocabulary.codec("model.gguf".as_ref(), false).unwrap();
    let text = format!("{}{}", "t".repeat(5_000), "h".repeat(199_999));
    let ids = codec.encode(&text).unwrap();
    assert_eq!(codec.decode(&ids).unwrap(), text);
}

#[test]
fn damaged_vocabularies_never_panic() {
    let mut rng = seeded(51);
    let words = [FRAGMENTS, &["", "▁", "t h", "th", "<0x41>", "[PAD1]", "</s>", "\0"]].concat();
    let (mut made, mut refused) = (0, 0);
    for round in 0..600 {
        let mut v = if round % 2 == 0 { byte_level() } else { sentence_piece() };
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..v.tokens.len());
            let word = words[rng.random_range(0..words.len())].to_owned();
            match rng.random_range(0..11) {
                0 => v.tokens[at] = word,
                1 => v.tokens.truncate(at.max(1)),
                2 => v.types.iter_mut().skip(at).for_each(|kind| *kind = 4),
                3 => v.types.truncate(at),
                4 => v.scores.truncate(at),
                5 => v.scores.iter_mut().for_each(|score| *score = f32::INFINITY),
                6 => v.merges.push(word),
                7 => v.bos = Some(rng.random_range(0..400)),
                8 => v.eos = Some(rng.random_range(0..400)),
                9 => (v.add_bos, v.add_eos) = (Some(rng.random()), Some(rng.random())),
                _ => v.model = ["gpt2", "llama", "gemma4"][rng.random_range(0..3)].to_owned(),
            }
        }
        let special_tokens = rng.random();
        let codec = match v.codec("model.gguf".as_ref(), special_tokens) {
            Ok(codec) => codec,
            Err(why) => {
                assert!(!why.to_string().contains('\n'), "{why}");
                refused += 1;
                continue;
            }
        };
        made += 1;
        for _ in 0..5 {
            let text = random_text(8, &mut rng);
            if let Ok(ids) = codec.encode(&text) {
                codec.decode(&ids).unwrap();
                ids.iter().for_each(|id| drop(codec.token_label(*id)));
            }
        }
    }
    assert!(made > 100 && refused > 100, "{made} made, {refused} refused");
}
