//! Folders with `tokenizer.model` in place of `tokenizer.json` (`tests/older/sentence_piece`).

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use specdec::checkpoint::load;
use specdec::engine::{Settings, Source};
use specdec::model::{ChatMessage, Conversation, Loaded, Role};

use crate::checkpoint::{Checkpoint, write_json};
use crate::damage_support::says;

/// Number of pieces, and of embeddings, in all folders.
const PIECES: usize = 440;
const ROWS: usize = 448;

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older/sentence_piece")
}

fn read<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    serde_json::from_slice(&fs::read(models().join(name)).unwrap()).unwrap()
}

/// A folder with a model of `tests/older` as its tokenizer.
fn folder(model: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"bos_token_id": 1, "eos_token_id": 2});
    Checkpoint { vocab_rows: ROWS, config, ..Checkpoint::default() }.write(folder.path());
    fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    let model = models().join(format!("{model}.model"));
    fs::copy(model, folder.path().join("tokenizer.model")).unwrap();
    folder
}

fn with_file(folder: &tempfile::TempDir, name: &str, content: &Value) {
    write_json(&folder.path().join(name), content);
}

fn opened(folder: &tempfile::TempDir, special_tokens: bool) -> Result<Loaded, String> {
    let settings = Settings { special_tokens, threads: Some(1), ..Settings::default() };
    let source = Source::from(folder.path().to_str().unwrap()).with(settings);
    load(source, Role::Target).map_err(|error| {
        let sentence = error.to_string();
        assert!(!sentence.contains('\n') && sentence.len() < 1_000, "{sentence}");
        sentence
    })
}

fn ids(folder: &tempfile::TempDir, text: &str) -> Vec<u32> {
    opened(folder, true).unwrap().codec.encode(text).unwrap()
}

/// Texts, and what the package `sentencepiece` makes of them.
#[derive(Deserialize)]
struct Expected {
    texts: Vec<String>,
    models: std::collections::BTreeMap<String, OfModel>,
}

#[derive(Deserialize)]
struct OfModel {
    vocab: usize,
    ids: Vec<Vec<u32>>,
    decoded: Vec<String>,
}

/// Catches: white space that is kept or removed otherwise, also U+2581 in the text itself; a
/// control token that neighbours make; a space before a text of a model without one.
#[test]
fn texts_have_the_tokens_of_sentence_piece() {
    let Expected { texts, models } = read("expected.json");
    assert_eq!((texts.len(), models.len()), (16, 3));
    for (name, expected) in models {
        let loaded = opened(&folder(&name), false).unwrap();
        assert_eq!(loaded.model.info().vocab, expected.vocab);
        for (text, (ids, decoded)) in texts.iter().zip(expected.ids.iter().zip(&expected.decoded)) {
            let found = loaded.codec.encode(text).unwrap();
            assert_eq!(found, [&[1], ids.as_slice()].concat(), "{name}, {text:?}");
            // U+2581 of the text itself is no space that was put before it.
            let own = name == "one_space" && text.starts_with('\u{2581}');
            let spaces = if own { "  " } else { "" };
            let decoded = format!("{spaces}{decoded}");
            assert_eq!(loaded.codec.decode(&found).unwrap(), decoded, "{name}, {text:?}");
        }
    }
}

/// Texts with control tokens, and what transformers makes of them under some settings.
#[derive(Deserialize)]
struct Controls {
    texts: Vec<String>,
    settings: std::collections::BTreeMap<String, OfSettings>,
}

#[derive(Deserialize)]
struct OfSettings {
    config: Value,
    ids: Vec<Vec<u32>>,
}

/// Catches: a space behind a control token where there is none, or none where there is one; an
/// added token that is not found, or is split.
#[test]
fn control_tokens_divide_a_text_as_in_transformers() {
    let Controls { texts, settings } = read("controls.json");
    assert_eq!((texts.len(), settings.len()), (3, 2));
    for (name, expected) in settings {
        let folder = folder("llama");
        with_file(&folder, "tokenizer_config.json", &expected.config);
        for (text, wanted) in texts.iter().zip(&expected.ids) {
            assert_eq!(ids(&folder, text), *wanted, "{name}, {text:?}");
        }
    }
}

#[test]
fn settings_say_which_tokens_are_around_a_text() {
    let of = |config: Value| {
        let folder = folder("llama");
        with_file(&folder, "tokenizer_config.json", &config);
        ids(&folder, "a")
    };
    assert_eq!(of(json!({})), [1, 263]);
    assert_eq!(of(json!({"add_bos_token": false})), [263]);
    assert_eq!(of(json!({"add_bos_token": null, "add_eos_token": true})), [1, 263, 2]);
    assert_eq!(of(json!({"bos_token": "</s>"})), [2, 263]);
    assert_eq!(of(json!({"bos_token": {"content": "<unk>"}})), [0, 263]);
    let folder = folder("llama");
    with_file(&folder, "special_tokens_map.json", &json!({"bos_token": "<unk>"}));
    assert_eq!(ids(&folder, "a"), [0, 263]);
    with_file(&folder, "tokenizer_config.json", &json!({"bos_token": "</s>"}));
    assert_eq!(ids(&folder, "a"), [2, 263], "as for chat templates, its keys count");
    with_file(&folder, "tokenizer_config.json", &json!({"bos_token": "<begin>"}));
    let sentence = opened(&folder, false).unwrap_err();
    says(
        &sentence,
        &["tokenizer.model: ", "belongs around every text, but bos_token does not say"],
    );
}

#[test]
fn added_tokens_of_older_folders_are_read() {
    let folder = folder("llama");
    with_file(&folder, "special_tokens_map.json", &json!({"pad_token": "[PAD]"}));
    let added = json!({"[PAD]": PIECES, "<tool>": PIECES + 1, "<far>": ROWS, "<next>": ROWS + 1});
    let between = (PIECES + 2..ROWS).map(|id| (format!("<{id}>"), json!(id)));
    let mut added = added.as_object().unwrap().clone();
    added.extend(between);
    with_file(&folder, "added_tokens.json", &Value::Object(added));
    let loaded = opened(&folder, false).unwrap();
    assert_eq!(loaded.model.info().vocab, ROWS);
    let [pad, tool] = [PIECES as u32, PIECES as u32 + 1];
    let found = loaded.codec.encode("a<tool>a[PAD]").unwrap();
    assert_eq!(found[..4], [1, 263, tool, 263], "a part behind it is a text of its own");
    assert!(!found.contains(&pad), "no text becomes a control token: {found:?}");
    assert_eq!(ids(&folder, "a[PAD]"), [1, 263, pad]);
    assert_eq!(loaded.codec.decode(&[263, tool, 263, pad]).unwrap(), "a<tool> a");
    assert!(loaded.codec.control_string("[PAD]").is_some());
    let ignored = "added tokens without an embedding are ignored: \"<far>\", \"<next>\"";
    assert!(loaded.model.info().note.iter().any(|note| note.contains(ignored)));
    with_file(&folder, "added_tokens.json", &json!({"[PAD]": PIECES + 1}));
    says(
        &opened(&folder, false).unwrap_err(),
        &["\"[PAD]\" has the id 441, which", "leaves a gap"],
    );
    with_file(&folder, "added_tokens.json", &json!({"[PAD]": 7}));
    says(
        &opened(&folder, false).unwrap_err(),
        &["\"[PAD]\" has the id 7, which is another token's"],
    );
}

#[test]
fn chats_and_ends_are_those_of_the_folder() {
    let folder = folder("llama");
    let mut config = Checkpoint { vocab_rows: ROWS, ..Checkpoint::default() }.config_json();
    for key in ["bos_token_id", "eos_token_id"] {
        config.as_object_mut().unwrap().remove(key);
    }
    with_file(&folder, "config.json", &config);
    let template = "{{ bos_token }}{% for m in messages %}USER: {{ m.content }}{% endfor %}";
    let keys = json!({"chat_template": template, "eos_token": "</s>", "bos_token": "<s>"});
    with_file(&folder, "tokenizer_config.json", &keys);
    let loaded = opened(&folder, false).unwrap();
    assert_eq!(loaded.model.info().eos, [2]);
    let messages = vec![ChatMessage::new("user", "a </s>")];
    let chat = Conversation { messages, ..Conversation::default() };
    let plain = loaded.codec.encode("USER: a </s>").unwrap();
    assert_eq!(loaded.codec.encode_chat(&chat).unwrap(), plain);
    assert_eq!(loaded.codec.decode(&plain).unwrap(), "USER: a </s>");
}

/// Catches: a file that says how texts are tokenised, and is not part of the hash.
#[test]
fn all_files_of_the_tokenizer_are_hashed() {
    let folder = folder("llama");
    let hash = || opened(&folder, false).unwrap().model.info().sha256.clone();
    let mut hashes = vec![hash()];
    for name in ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"] {
        with_file(&folder, name, &json!({}));
        hashes.push(hash());
    }
    fs::copy(models().join("one_space.model"), folder.path().join("tokenizer.model")).unwrap();
    hashes.push(hash());
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 5);
}

#[test]
fn a_folder_with_tokenizer_json_does_not_need_the_model() {
    let folder = tempfile::tempdir().unwrap();
    Checkpoint::default().write(folder.path());
    fs::write(folder.path().join("tokenizer.model"), "no model").unwrap();
    assert!(opened(&folder, false).is_ok());
}

#[test]
fn models_of_other_kinds_say_how_to_convert_them() {
    for (name, what) in [
        ("unigram", "it is a model of type unigram"),
        ("no_bytes", "it has no byte_fallback"),
        ("nfkc", "it has a precompiled_charsmap"),
        ("user_defined", "piece 3 is user-defined or unused"),
    ] {
        let folder = folder(name);
        let path = folder.path().display();
        let convert =
            format!("T.from_pretrained('{path}').backend_tokenizer.save('{path}/tokenizer.json')");
        says(&opened(&folder, false).unwrap_err(), &["tokenizer.model: ", what, &convert]);
    }
    let sentence = opened(&folder("suffix"), false).unwrap_err();
    says(&sentence, &["tokenizer.model: ", "white space otherwise than as U+2581 before a word"]);
}

#[test]
fn damaged_files_of_a_tokenizer_are_refused_by_name() {
    let folder = folder("llama");
    let file = folder.path().join("tokenizer.model");
    let whole = fs::read(&file).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        opened(&folder, false).unwrap_err()
    };
    says(
        &refused(&whole[..whole.len() - 1]),
        &["tokenizer.model: not a complete SentencePiece model"],
    );
    says(&refused(b"IQ== 0\nIg== 1\n"), &["not a SentencePiece model"]);
    says(&refused(&[&[10, 0], &whole[..]].concat()), &["piece 0 has no name in UTF-8"]);
    // A piece of the type normal, once more.
    let again = |name: &[u8]| {
        let piece = [&[10, name.len() as u8][..], name].concat();
        [&whole[..], &[10, piece.len() as u8], &piece].concat()
    };
    says(&refused(&again(b"<0x41>")), &["tokens: ", "are both \"<0x41>\""]);
    let wide = [again(b"1a"), again(b"1b")[whole.len()..].to_vec()].concat();
    assert!(fs::write(&file, wide).is_ok() && opened(&folder, false).is_ok());
    let many = (0..9).flat_map(|n| again(format!("1{n}").as_bytes())[whole.len()..].to_vec());
    let many = [whole.clone(), many.collect()].concat();
    says(&refused(&many), &["token \"18\" has the id 448, but config.json has vocab_size 448"]);
    fs::write(&file, &whole).unwrap();
    for (name, content, part) in [
        ("tokenizer_config.json", json!({"add_bos_token": "yes"}), "add_bos_token: "),
        (
            "tokenizer_config.json",
            json!({"added_tokens_decoder": {"x": 1}}),
            "added_tokens_decoder: ",
        ),
        ("added_tokens.json", json!({"a": -1}), "a whole number >= 0"),
    ] {
        with_file(&folder, name, &content);
        says(&opened(&folder, false).unwrap_err(), &[name, part]);
        fs::remove_file(folder.path().join(name)).unwrap();
    }
}
