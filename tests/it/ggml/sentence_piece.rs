//! SentencePiece vocabularies from GGUF files: tokens as a naive implementation finds them.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use specdec::checkpoint::GgmlVocabulary;
use specdec::core::distribution::Token;

use crate::fixtures::seeded;
use crate::ggml::support::{
    BYTE, CONTROL, FRAGMENTS, NORMAL, UNKNOWN, USER_DEFINED, add, codec, ids, parts, random_text,
};

const UNK: Token = 0;
const BOS: Token = 1;
const EOS: Token = 2;

/// Scores of which many tokens have the same, two of them equal zeros.
const SCORES: &[f32] = &[0.0, -0.0, -1.0, -1.0, -2.0, -2.5, -1e9, f32::NEG_INFINITY];

fn push(vocabulary: &mut GgmlVocabulary, name: &str, kind: i32, score: f32) -> Token {
    vocabulary.scores.push(score);
    add(vocabulary, name, kind)
}

/// Adds a user-defined token, or makes one of the token that there is.
fn user_defined(vocabulary: &mut GgmlVocabulary, name: &str) -> Token {
    let known = ids(vocabulary).get(name).copied();
    let id = known.unwrap_or_else(|| push(vocabulary, name, USER_DEFINED, -1000.0));
    vocabulary.types[id as usize] = USER_DEFINED;
    id
}

/// Merges the neighbours whose token has the highest score, the leftmost first, until no
/// neighbours make a token; what is no token then becomes bytes.
fn merged(vocabulary: &GgmlVocabulary, text: &str) -> (Vec<String>, Vec<Token>) {
    let ids = ids(vocabulary);
    let score = |name: &str| ids.get(name).map(|id| vocabulary.scores[*id as usize]);
    let mut names = text.chars().map(String::from).collect::<Vec<_>>();
    loop {
        let mut best = None::<(f32, usize)>;
        for at in 1..names.len() {
            let found = score(&names[at - 1..=at].concat());
            if let Some(score) = found.filter(|score| best.is_none_or(|(best, _)| *score > best)) {
                best = Some((score, at - 1));
            }
        }
        let Some((_, at)) = best else { break };
        let right = names.remove(at + 1);
        names[at] += &right;
    }
    let bytes =
        |name: &String| name.bytes().map(|b| ids[format!("<0x{b:02X}>").as_str()]).collect();
    let found = |name: &String| ids.get(name.as_str()).map_or_else(|| bytes(name), |id| vec![*id]);
    let tokens = names.iter().flat_map(found).collect();
    (names, tokens)
}

fn escaped(text: &str) -> String {
    text.replace(' ', "▁")
}

/// Control tokens, bytes, most characters of the fragments, and neighbours in random texts;
/// neither part of the last of them need be a token.
fn vocabulary(rng: &mut ChaCha8Rng) -> GgmlVocabulary {
    let mut made = GgmlVocabulary { model: "llama".to_owned(), ..Default::default() };
    push(&mut made, "<unk>", UNKNOWN, 0.0);
    push(&mut made, "<s>", CONTROL, 0.0);
    push(&mut made, "</s>", CONTROL, 0.0);
    for byte in 0..=u8::MAX {
        push(&mut made, &format!("<0x{byte:02X}>"), BYTE, 0.0);
    }
    let characters = escaped(&FRAGMENTS.concat());
    for c in characters.chars().filter(|c| !"中õ\u{301}7".contains(*c)) {
        if !ids(&made).contains_key(c.to_string().as_str()) {
            push(&mut made, &c.to_string(), NORMAL, f32::NEG_INFINITY);
        }
    }
    while made.tokens.len() < 600 {
        let (names, _) = merged(&made, &escaped(&random_text(6, rng)));
        if names.len() < 2 {
            continue;
        }
        let at = rng.random_range(0..names.len() - 1);
        let token = names[at..at + 2].concat();
        if !made.tokens.contains(&token) {
            push(&mut made, &token, NORMAL, SCORES[rng.random_range(0..SCORES.len())]);
        }
    }
    made
}

#[test]
fn texts_have_the_tokens_of_naive_merging_by_scores() {
    for (seed, add_space_prefix) in [(41, None), (42, Some(true)), (43, Some(false))] {
        let mut rng = seeded(seed);
        let vocabulary = GgmlVocabulary { add_space_prefix, ..vocabulary(&mut rng) };
        let codec = codec(&vocabulary, false);
        for _ in 0..300 {
            let text = random_text(12, &mut rng);
            let spaced = if add_space_prefix == Some(false) { "" } else { " " };
            let (_, tokens) = merged(&vocabulary, &escaped(&format!("{spaced}{text}")));
            let ids = codec.encode(&text).unwrap();
            assert_eq!(ids, [&[BOS], tokens.as_slice()].concat(), "{text:?}");
            assert_eq!(codec.decode(&ids).unwrap(), text);
        }
    }
}

#[test]
fn of_equal_scores_the_leftmost_neighbours_are_merged_first() {
    let mut vocabulary = vocabulary(&mut seeded(44));
    vocabulary.tokens.truncate(3 + 256);
    vocabulary.types.truncate(3 + 256);
    vocabulary.scores.truncate(3 + 256);
    vocabulary.add_space_prefix = Some(false);
    vocabulary.add_bos = Some(false);
    // As in Llama's vocabulary, in which every run of spaces has the same score. Ranks of
    // pairs would merge all runs of two first.
    let runs = [1, 2, 3, 4].map(|n| push(&mut vocabulary, &"▁".repeat(n), NORMAL, -1e9));
    let spaces = |n: usize| codec(&vocabulary, false).encode(&" ".repeat(n)).unwrap();
    assert_eq!(spaces(3), [runs[2]]);
    assert_eq!(spaces(4), [runs[3]]);
    assert_eq!(spaces(7), [runs[3], runs[2]]);
    assert_eq!(spaces(9), [runs[3], runs[3], runs[0]]);
}

#[test]
fn user_defined_tokens_are_found_before_anything_is_merged() {
    let mut rng = seeded(45);
    for add_space_prefix in [Some(true), Some(false)] {
        let mut vocabulary = GgmlVocabulary { add_space_prefix, ..vocabulary(&mut rng) };
        let names = ["  ", "    ", "\n\n", "<tool>", "中文"];
        let whole = names.map(|name| user_defined(&mut vocabulary, name));
        let codec = codec(&vocabulary, false);
        let spaced = if add_space_prefix == Some(true) { " " } else { "" };
        for _ in 0..300 {
            let text = random_text(12, &mut rng);
            let mut ids = vec![BOS];
            for (part, is_whole) in parts(&text, &names) {
                match names.iter().position(|name| *name == part) {
                    Some(at) if is_whole => ids.push(whole[at]),
                    _ => ids.extend(merged(&vocabulary, &escaped(&format!("{spaced}{part}"))).1),
                }
            }
            assert_eq!(codec.encode(&text).unwrap(), ids, "{text:?}");
            // With the prefix, a part after a user-defined token gets a space, too.
            if spaced.is_empty() || parts(&text, &names).len() == 1 {
                assert_eq!(codec.decode(&ids).unwrap(), text);
            }
        }
        assert_eq!(codec.decode(&[BOS, whole[0]]).unwrap(), "  ", "no space was put before it");
    }
}

#[test]
fn a_control_string_has_other_tokens_unless_it_is_allowed() {
    let mut vocabulary = vocabulary(&mut seeded(46));
    for part in ["</", "s>"] {
        if !vocabulary.tokens.iter().any(|name| name == part) {
            push(&mut vocabulary, part, NORMAL, -1.0);
        }
    }
    let (plain, special) = (codec(&vocabulary, false), codec(&vocabulary, true));
    let ids = plain.encode("a</s>a<unk>").unwrap();
    assert!(!ids.contains(&EOS) && !ids.contains(&UNK), "{ids:?}");
    assert_eq!(plain.decode(&ids).unwrap(), "a</s>a<unk>");
    assert_eq!(plain.control_string("a</s>").unwrap(), "</s>");
    let ids = special.encode("a</s>a<unk>").unwrap();
    assert!(ids.contains(&EOS) && ids.contains(&UNK), "{ids:?}");
    // The part after a control token gets a space, as llama.cpp does it.
    assert_eq!(special.decode(&ids).unwrap(), "a a");
}

#[test]
fn bytes_become_characters_and_the_first_space_is_left_out() {
    let mut rng = seeded(47);
    let vocabulary = vocabulary(&mut rng);
    let ids = ids(&vocabulary);
    let [a, space, first, second, third] =
        ["a", "▁", "<0xE3>", "<0x81>", "<0x82>"].map(|name| ids[name]);
    let spaced = codec(&vocabulary, false);
    let text = |tokens: &[Token]| spaced.decode(tokens).unwrap();
    assert_eq!(text(&[BOS, space, space, a, EOS, space, a, UNK]), " a a");
    assert_eq!(text(&[a, space]), "a ");
    assert_eq!(text(&[a, first, second, third, a]), "aあa");
    assert_eq!(text(&[a, first, second]), "a\u{FFFD}");
    assert_eq!(spaced.token_label(first), "<0xE3>");
    assert_eq!(spaced.token_label(BOS), "<s>");
    let last = vocabulary.tokens.len() as Token;
    let error = spaced.decode(&[a, last]).unwrap_err().to_string();
    assert_eq!(error, format!("model.gguf: there is no token {last}"));
    let plain = GgmlVocabulary { add_space_prefix: Some(false), ..vocabulary.clone() };
    assert_eq!(codec(&plain, false).decode(&[BOS, space, a]).unwrap(), " a");
}

#[test]
fn ranks_of_merges_may_replace_scores() {
    let mut vocabulary = vocabulary(&mut seeded(49));
    vocabulary.tokens.truncate(3 + 256);
    vocabulary.types.truncate(3 + 256);
    vocabulary.model = "gemma4".to_owned();
    vocabulary.bos = Some(BOS);
    let names = ["a", "b", "▁", "ab", "▁a", "\n", "\n\n"];
    let [_, b, space, ab, space_a, line, lines] = names.map(|n| add(&mut vocabulary, n, NORMAL));
    vocabulary.merges = ["a b", "▁ a"].map(str::to_owned).to_vec();
    let codec = codec(&vocabulary, false);
    let ids = |text: &str| codec.encode(text).unwrap();
    assert_eq!(ids(" ab"), [BOS, space, ab], "the merge that comes first");
    assert_eq!(ids(" a b"), [BOS, space_a, space, b]);
    assert_eq!(ids("b\n\nb\n"), [BOS, b, lines, b, line], "line breaks need no merge");
    let bytes = "ü".bytes().map(|byte| 3 + Token::from(byte)).collect::<Vec<_>>();
    assert_eq!(ids("bü"), [&[BOS, b], bytes.as_slice()].concat());
    for text in [" ab", "a  ü\n\n\n b", "\n"] {
        assert_eq!(codec.decode(&ids(text)).unwrap(), text);
    }
}

#[test]
fn phi_3_removes_white_space_after_its_control_tokens() {
    let mut vocabulary = vocabulary(&mut seeded(48));
    let user = push(&mut vocabulary, "<|user|>", CONTROL, -1000.0);
    let ids = |name: &str| {
        let vocabulary = GgmlVocabulary { name: name.to_owned(), ..vocabulary.clone() };
        codec(&vocabulary, true).encode("<|user|>\n a").unwrap()
    };
    let after = |text: &str| merged(&vocabulary, &escaped(text)).1;
    assert_eq!(ids("Phi-3-mini"), [&[BOS, user], after(" a").as_slice()].concat());
    assert_eq!(ids("Phi3"), ids("Phi-3-mini"));
    assert_eq!(ids("Llama 2"), [&[BOS, user], after(" \n a").as_slice()].concat());
}
