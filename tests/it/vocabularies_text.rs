//! Drafts across vocabularies with tokenizers of real texts: the embedded pair against a draft
//! whose tokens are fewer and have other numbers, and against SentencePiece.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use specdec::checkpoint::{Catalog, GgmlVocabulary, load};
use specdec::core::distribution::Token;
use specdec::method::draft::DRAFTERS;
use specdec::model::{Codec, LanguageModel, Loaded, Role, Spelling, TranslatedModel, Vocabulary};
use specdec::{MethodSpec, Pair, SamplingParams};

use crate::ggml::support::{BYTE, CONTROL, NORMAL, add, codec};
use crate::hub_support::{draft_files, draft_folder};
use crate::vocabularies::{Mute, read};

/// Tokens of the embedded pair.
const VOCAB: u32 = 4096;

fn target() -> Loaded {
    let catalog = Catalog::near(Path::new(env!("CARGO_MANIFEST_DIR")));
    load(catalog.model("embedded-target").unwrap(), Role::Target).unwrap()
}

/// Writes the embedded draft with its first `keep` tokens alone, of which the last is the
/// first and so on, and with `padding` more rows of weights.
fn write_draft(folder: &Path, keep: u32, reversed: bool, padding: u32) {
    let own = |id: u32| if reversed { keep - 1 - id } else { id };
    let files = draft_files();
    let read_json = |name: &str| serde_json::from_slice::<Value>(&files[name]).unwrap();
    let write = |name: &str, value: Value| fs::write(folder.join(name), value.to_string()).unwrap();
    let mut config = read_json("config.json");
    config["vocab_size"] = json!(keep + padding);
    let mut marks = read_json("generation_config.json");
    for (key, id) in [("bos_token_id", 0), ("eos_token_id", 1)] {
        config[key] = json!(own(id));
        marks[key] = json!(own(id));
    }
    write("config.json", config);
    write("generation_config.json", marks);
    write("tokenizer.json", other_tokenizer(read_json("tokenizer.json"), keep, own));
    let whole = &files["model.safetensors"];
    let tensors = SafeTensors::deserialize(whole).unwrap();
    let name = "model.embed_tokens.weight";
    let table = tensors.tensor(name).unwrap();
    let (width, row) = (table.shape()[1], table.data().len() / VOCAB as usize);
    let mut rows = vec![0; (keep + padding) as usize * row];
    for (id, weights) in (0..keep).zip(table.data().chunks(row)) {
        rows[own(id) as usize * row..][..row].copy_from_slice(weights);
    }
    let shape = vec![(keep + padding) as usize, width];
    let table = TensorView::new(table.dtype(), shape, &rows).unwrap();
    let mut all = tensors.tensors().into_iter().collect::<BTreeMap<_, _>>();
    all.insert(name.to_owned(), table);
    fs::write(folder.join("model.safetensors"), safetensors::serialize(all, None).unwrap())
        .unwrap();
}

/// The tokenizer with its first `keep` tokens, which have other ids.
fn other_tokenizer(mut tokenizer: Value, keep: u32, own: impl Fn(u32) -> u32) -> Value {
    let model = &mut tokenizer["model"];
    let id = |value: &Value| value.as_u64().unwrap() as u32;
    let vocab = model["vocab"].as_object().unwrap().clone();
    let known = |name: &str| id(&vocab[name]) < keep;
    let merges = model["merges"].as_array_mut().unwrap();
    merges.retain(|pair| known(&[&pair[0], &pair[1]].map(|part| part.as_str().unwrap()).concat()));
    let kept = vocab.iter().filter(|(name, _)| known(name));
    let kept = kept.map(|(name, value)| (name.clone(), json!(own(id(value)))));
    model["vocab"] = kept.collect::<serde_json::Map<_, _>>().into();
    for added in tokenizer["added_tokens"].as_array_mut().unwrap() {
        added["id"] = json!(own(id(&added["id"])));
    }
    tokenizer["post_processor"]["special_tokens"]["<|bos|>"]["ids"] = json!([own(0)]);
    tokenizer
}

fn draft_of(keep: u32, reversed: bool, padding: u32) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    write_draft(folder.path(), keep, reversed, padding);
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

fn pair_of(vocabulary: Vocabulary, draft: &str) -> Pair {
    Pair { target: target(), draft: None }.with_draft_of(vocabulary, draft).unwrap()
}

fn spec(drafter: &str, temperature: f64) -> MethodSpec {
    let sampling = SamplingParams { temperature, ..SamplingParams::default() };
    MethodSpec { drafter: drafter.to_owned(), sampling, ..MethodSpec::default() }
}

/// New tokens per text.
const TOKENS: usize = 32;

const PROMPTS: [&str; 3] = [
    "fn main() {\n    let numbers = vec![1, 2, 3];\n",
    "/// A naïve café for 🦀 and 漢字 — “quoted”.\nstruct Café",
    "Copyright 🦀🦀🦀",
];

#[test]
fn greedy_text_is_that_of_the_target_alone_with_every_drafter() {
    let (_folder, path) = draft_of(1000, true, 24);
    let pair = pair_of(Vocabulary::Intersection, &path);
    for prompt in PROMPTS {
        let text = |drafter| pair.generate(prompt, &spec(drafter, 0.0), TOKENS, 0).unwrap();
        let plain = text("none");
        let drafters = DRAFTERS.iter().filter(|drafter| drafter.build.needs_model);
        let mut faster = 0;
        for drafter in drafters {
            let found = text(drafter.name);
            assert_eq!(found.tokens, plain.tokens, "{} {prompt:?}", drafter.name);
            faster += usize::from(found.totals.target_forwards < plain.totals.target_forwards);
        }
        assert!(faster >= 4, "drafts are accepted: {faster}");
    }
}

#[test]
fn a_draft_under_other_numbers_is_accepted_as_often() {
    let (_folder, path) = draft_of(VOCAB, true, 0);
    let (one, other) = (
        pair_of(Vocabulary::Same, draft_folder().to_str().unwrap()),
        pair_of(Vocabulary::Intersection, &path),
    );
    let passes = |pair: &Pair| {
        let found = pair.generate(PROMPTS[0], &spec("model", 0.0), TOKENS, 0).unwrap();
        (found.tokens, found.totals.target_forwards, found.totals.draft_forwards)
    };
    assert_eq!(passes(&one), passes(&other));
    let info = other.draft_model().unwrap().info();
    assert_eq!(info.tokenizer_sha256, one.target.model.info().tokenizer_sha256);
    let note = "drafts the 4096 tokens that its 4096 have in common with the target's 4096";
    assert_eq!(info.note.as_deref(), Some(note));
}

#[test]
fn rows_of_padding_make_no_other_vocabulary() {
    let (_folder, path) = draft_of(VOCAB, false, 64);
    let (one, other) = (
        pair_of(Vocabulary::Same, draft_folder().to_str().unwrap()),
        pair_of(Vocabulary::Same, &path),
    );
    for temperature in [0.0, 1.0] {
        let text = |pair: &Pair| {
            let found = pair.generate(PROMPTS[0], &spec("model", temperature), TOKENS, 7).unwrap();
            (found.tokens, found.totals.target_forwards)
        };
        assert_eq!(text(&one), text(&other));
    }
}

#[test]
fn other_tokens_are_refused_with_the_key_that_allows_them() {
    let intersection = "; vocabulary = \"intersection\" drafts the tokens that both have";
    let prefix = "; vocabulary = \"prefix\" drafts those of the first 1000 that are equal";
    for (keep, reversed, what, key) in [
        (VOCAB, true, "different tokenizers", intersection),
        (1000, true, "1000", intersection),
        (1000, false, "they differ first in token 1000 (", prefix),
    ] {
        let (_folder, path) = draft_of(keep, reversed, 0);
        let refused = Pair { target: target(), draft: None }.with_draft(path.as_str());
        let sentence = refused.unwrap_err().to_string();
        assert!(sentence.contains(what) && sentence.ends_with(key), "{sentence}");
    }
}

/// The bytes of a text in tokens.
fn bytes(spellings: &[Option<Spelling>], tokens: &[Token]) -> Vec<u8> {
    let of = |token: &Token| spellings[*token as usize].as_ref().unwrap().bytes().to_vec();
    tokens.iter().flat_map(of).collect()
}

#[test]
fn a_draft_model_hears_every_byte_even_of_unfinished_characters() {
    let (_folder, path) = draft_of(600, true, 0);
    let (target, own) = (target(), load(path.as_str(), Role::Draft).unwrap().codec);
    let (spellings, own_spellings) = (target.codec.spellings().unwrap(), own.spellings().unwrap());
    let whole = own.encode(PROMPTS[1]).unwrap();
    let (mute, heard) = Mute::new(600, 100_000);
    let info = target.model.info();
    let model = TranslatedModel::new((info, &*target.codec), (mute, own)).unwrap();
    let mut session = model.session().unwrap();
    let tokens = target.codec.encode(PROMPTS[1]).unwrap();
    let mut unfinished = 0;
    for end in 1..=tokens.len() {
        read(&model, &mut session, &tokens[..end]);
        let heard = heard.borrow_mut().pop().unwrap();
        let text = bytes(&spellings, &tokens[..end]);
        assert_eq!(heard[0], 599, "the draft model's beginning of a text");
        assert_eq!(bytes(&own_spellings, &heard), text, "{end}");
        unfinished += usize::from(String::from_utf8(text).is_err());
        if end == tokens.len() {
            assert_eq!(heard, whole, "as the draft model's tokenizer says it");
        }
    }
    assert!(unfinished >= 3, "{unfinished}");
    // A control token in a text is the one of the same name; what is around it is encoded apart.
    let (end, word) = (1, tokens[1]);
    read(&model, &mut session, &[tokens[0], word, end, word]);
    let heard_now = heard.borrow_mut().pop().unwrap();
    let own_word = &heard_now[1..heard_now.len() / 2];
    assert_eq!(heard_now, [&[599], own_word, &[598], own_word].concat());
    // A byte that begins no character is passed on as a replacement, not as an error.
    let broken = [tokens[0], tokens[1], 255, 254, tokens[1]];
    read(&model, &mut session, &broken);
    let heard = heard.borrow_mut().pop().unwrap();
    assert!(String::from_utf8_lossy(&bytes(&own_spellings, &heard)).contains('\u{FFFD}'));
}

#[test]
fn a_longer_text_costs_no_more_per_token() {
    let (_folder, path) = draft_of(600, true, 0);
    let (target, own) = (target(), load(path.as_str(), Role::Draft).unwrap().codec);
    let text = fs::read_to_string(draft_folder().join("../README.md")).unwrap();
    let whole = own.encode(&text).unwrap();
    let (mute, heard) = Mute::new(600, 100_000);
    let model = TranslatedModel::new((target.model.info(), &*target.codec), (mute, own)).unwrap();
    let mut session = model.session().unwrap();
    let tokens = target.codec.encode(&text).unwrap();
    assert!(tokens.len() > 1000, "{}", tokens.len());
    let (mut computed, mut most) = (0, 0);
    for end in 1..=tokens.len() {
        let now = read(&model, &mut session, &tokens[..end]);
        (computed, most) = (computed + now, most.max(now));
    }
    // In parts, but these end where words do.
    assert_eq!(heard.borrow().last().unwrap(), &whole);
    // A token of the target is a word at most; what follows it can change the draft model's
    // tokens of the same word.
    assert!(most <= 24, "{most}");
    assert!(computed <= 2 * whole.len() + tokens.len(), "{computed} of {}", whole.len());
}

/// A vocabulary of SentencePiece: bytes, letters and a few words.
fn sentence_piece() -> GgmlVocabulary {
    let mut vocabulary = GgmlVocabulary {
        model: "llama".to_owned(),
        scores: vec![0.0; 400],
        ..GgmlVocabulary::default()
    };
    for name in ["<unk>", "<|bos|>", "</s>"] {
        add(&mut vocabulary, name, CONTROL);
    }
    (0..=255u8).for_each(|byte| _ = add(&mut vocabulary, &format!("<0x{byte:02X}>"), BYTE));
    for name in ["▁", "t", "h", "e", "a", "th", "the", "▁the", "▁a"] {
        add(&mut vocabulary, name, NORMAL);
    }
    vocabulary
}

#[test]
fn sentence_piece_and_byte_level_tokens_are_shared() {
    let (target, vocabulary) = (target(), sentence_piece());
    let (info, pieces) = (target.model.info(), codec(&vocabulary, false));
    let count = vocabulary.tokens.len();
    let named =
        |codec: &dyn Codec, token: Token| codec.spellings().unwrap()[token as usize].clone();
    let text = "the a the";

    let (mute, heard) = Mute::new(count, 1000);
    let model = TranslatedModel::new((info, &*target.codec), (mute, pieces)).unwrap();
    let pieces = codec(&vocabulary, false);
    for (token, own) in model.shared().pairs() {
        let (one, other) = (named(&*target.codec, token), named(&*pieces, own));
        assert_eq!(one.unwrap().bytes(), other.unwrap().bytes());
    }
    let word = *target.codec.encode(" the").unwrap().last().unwrap();
    let own = model.shared().own(word).unwrap();
    assert_eq!(vocabulary.tokens[own as usize], "▁the");
    let letter = *target.codec.encode("a").unwrap().last().unwrap();
    assert_eq!(vocabulary.tokens[model.shared().own(letter).unwrap() as usize], "a");
    assert_eq!(model.shared().own(0), Some(1), "<|bos|> is a control token of both");
    read(&model, &mut model.session().unwrap(), &target.codec.encode(text).unwrap());
    assert_eq!(heard.borrow()[0], pieces.encode(text).unwrap());

    let (mute, heard) = Mute::new(VOCAB as usize, 1000);
    let (reader, _) = Mute::new(count, 1000);
    let own = load(draft_folder().to_str().unwrap(), Role::Draft).unwrap().codec;
    let expected = own.encode(text).unwrap();
    let model = TranslatedModel::new((reader.info(), &*pieces), (mute, own)).unwrap();
    read(&model, &mut model.session().unwrap(), &pieces.encode(text).unwrap());
    assert_eq!(heard.borrow()[0], expected, "without the space that SentencePiece adds");
}
