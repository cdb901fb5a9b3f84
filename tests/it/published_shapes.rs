//! Tokenizers and configurations in the shapes in which models are published, on small random
//! weights: ids without an embedding, rows without a token, and where end tokens stand.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use specdec::checkpoint::load;
use specdec::engine::{Settings, Source};
use specdec::model::{Loaded, Role, Vocabulary};
use specdec::{MethodSpec, Pair};

use crate::checkpoint::{BOS, Checkpoint, EOS, VOCAB, tokenizer_json, write_json};

/// A published model, in small.
struct Shape {
    name: &'static str,
    /// Rows of the embedding beyond the tokens of the tokenizer's model.
    padding: usize,
    /// Names of the added tokens after these, and whether they are special.
    added: &'static [(&'static str, bool)],
    config: Value,
    generation: Value,
    tokenizer_config: Value,
    vocab: usize,
    eos: &'static [u32],
    /// What the model's note says; empty if there is none.
    note: &'static str,
}

const IM_END: &[(&str, bool)] = &[("<|im_start|>", true), ("<|im_end|>", true)];
const PADDED: usize = 8;

fn shapes() -> Vec<Shape> {
    let plain = || Shape {
        name: "",
        padding: 0,
        added: &[],
        config: json!({}),
        generation: json!(null),
        tokenizer_config: json!(null),
        vocab: VOCAB,
        eos: &[EOS],
        note: "",
    };
    let named = json!({"eos_token": "<|im_end|>"});
    vec![
        Shape { name: "Llama 2: as many rows as tokens", ..plain() },
        Shape {
            name: "Llama 2, fine-tuned: [PAD] is added to the tokenizer alone",
            added: &[("[PAD]", true)],
            tokenizer_config: json!({"pad_token": "[PAD]"}),
            note: "added tokens without an embedding are ignored: \"[PAD]\"",
            ..plain()
        },
        Shape {
            name: "Llama 2, fine-tuned: a plain token is added to the tokenizer alone",
            added: &[("</tool>", false)],
            note: "added tokens without an embedding are ignored: \"</tool>\"",
            ..plain()
        },
        Shape {
            name: "Gemma 3: <image_soft_token> of the models with images, several ends",
            padding: 2,
            added: &[
                ("<start_of_turn>", true),
                ("<end_of_turn>", true),
                ("<image_soft_token>", true),
            ],
            config: json!({"eos_token_id": [EOS, VOCAB + 1]}),
            generation: json!({"eos_token_id": [EOS, VOCAB + 1]}),
            vocab: VOCAB + 2,
            eos: &[EOS, VOCAB as u32 + 1],
            note: "\"<image_soft_token>\"",
            ..plain()
        },
        Shape {
            name: "Qwen 2.5: padded rows, ends in generation_config.json",
            padding: PADDED,
            added: IM_END,
            generation: json!({"eos_token_id": [VOCAB + 1, EOS]}),
            vocab: VOCAB + 2,
            eos: &[VOCAB as u32 + 1, EOS],
            ..plain()
        },
        Shape {
            name: "an end token in tokenizer_config.json alone",
            padding: PADDED,
            added: IM_END,
            config: json!({"eos_token_id": null}),
            tokenizer_config: named.clone(),
            vocab: VOCAB + 2,
            eos: &[VOCAB as u32 + 1],
            note: "eos_token of tokenizer_config.json ends a completion",
            ..plain()
        },
        Shape {
            name: "the same as transformers 4 wrote it, with an id that does not exist",
            padding: PADDED,
            added: IM_END,
            config: json!({"eos_token_id": 99_999}),
            tokenizer_config: json!({"eos_token": {"__type": "AddedToken", "content": "<|im_end|>"}}),
            vocab: VOCAB + 2,
            eos: &[VOCAB as u32 + 1],
            note: "eos_token of tokenizer_config.json ends a completion",
            ..plain()
        },
        Shape {
            name: "an id of a padding row",
            padding: PADDED,
            config: json!({"eos_token_id": VOCAB + 3}),
            eos: &[],
            note: "it has no end token",
            ..plain()
        },
        Shape {
            name: "an empty list in generation_config.json",
            generation: json!({"eos_token_id": []}),
            tokenizer_config: named,
            note: "those of config.json end a completion",
            ..plain()
        },
        Shape {
            name: "a base model without any",
            config: json!({"eos_token_id": null}),
            eos: &[],
            note: "it has no end token, so only max_tokens, a stop string or a full context ends",
            ..plain()
        },
    ]
}

fn write(shape: &Shape, folder: &Path) {
    let config = shape.config.clone();
    let rows = VOCAB + shape.padding;
    Checkpoint { vocab_rows: rows, config, ..Checkpoint::default() }.write(folder);
    let mut tokenizer = tokenizer_json();
    let added = (VOCAB..).zip(shape.added).map(|(id, (content, special))| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": special
        })
    });
    tokenizer["added_tokens"].as_array_mut().unwrap().extend(added);
    write_json(&folder.join("tokenizer.json"), &tokenizer);
    for (name, value) in [
        ("generation_config.json", &shape.generation),
        ("tokenizer_config.json", &shape.tokenizer_config),
    ] {
        if !value.is_null() {
            write_json(&folder.join(name), value);
        }
    }
}

fn open(folder: &Path, special_tokens: bool) -> Loaded {
    let settings = Settings { special_tokens, ..Settings::default() };
    load(Source { settings, ..folder.to_str().unwrap().into() }, Role::Target).unwrap()
}

/// Catches: a tokenizer that is refused for ids that cannot occur; an end token that is not read
/// where it stands; a model without one that says nothing.
#[test]
fn published_shapes_load_with_their_tokens_ends_and_notes() {
    for shape in shapes() {
        let folder = tempfile::tempdir().unwrap();
        write(&shape, folder.path());
        let loaded = open(folder.path(), false);
        let info = loaded.model.info();
        assert_eq!((info.vocab, &*info.eos), (shape.vocab, shape.eos), "{}", shape.name);
        match (&info.note, shape.note) {
            (None, "") => {}
            (Some(note), part) if !part.is_empty() => assert!(note.contains(part), "{note}"),
            (note, part) => panic!("{}: {note:?} instead of {part:?}", shape.name),
        }
    }
}

/// Catches: ids beyond the embedding that a prompt becomes; tokens whose ids shift when others are
/// ignored.
#[test]
fn tokens_without_an_embedding_are_plain_text() {
    for shape in shapes().into_iter().filter(|shape| !shape.added.is_empty()) {
        let folder = tempfile::tempdir().unwrap();
        write(&shape, folder.path());
        for special_tokens in [false, true] {
            let codec = open(folder.path(), special_tokens).codec;
            for (id, (name, special)) in (VOCAB..).zip(shape.added) {
                let tokens = codec.encode(name).unwrap();
                assert!(tokens.iter().all(|&token| (token as usize) < shape.vocab), "{name}");
                assert_eq!(
                    codec.decode(&tokens).unwrap().is_empty(),
                    tokens.len() == 2 && *special
                );
                let one = id < shape.vocab && (special_tokens || !special);
                let expected = if one { vec![BOS, id as u32] } else { tokens.clone() };
                assert_eq!(tokens, expected, "{}: {name}", shape.name);
                assert_eq!(tokens.len() == 2, one, "{}: {name}", shape.name);
            }
        }
    }
}

/// As Gemma 3 27B and 1B: one tokenizer, of which the smaller model has an embedding less.
#[test]
fn a_larger_model_has_an_added_token_more() {
    let folder = tempfile::tempdir().unwrap();
    let [large, small] = ["large", "small"].map(|name| folder.path().join(name));
    let mut shape = shapes().remove(1);
    write(&shape, &small);
    (shape.padding, shape.vocab) = (1, VOCAB + 1);
    write(&shape, &large);
    let [large, small] = [large, small].map(|path| path.to_str().unwrap().to_owned());
    let paired =
        |vocabulary| Pair::load(large.as_str()).unwrap().with_draft_of(vocabulary, small.as_str());
    let error = paired(Vocabulary::Same).unwrap_err().to_string();
    let first = format!("they differ first in token {VOCAB} (\"[PAD]\" and none)");
    let helps = format!("vocabulary = \"prefix\" drafts those of the first {VOCAB} that are equal");
    assert!(error.contains(&first) && error.ends_with(&helps), "{error}");
    // With the same weights below the last row, the draft is the target.
    let pair = paired(Vocabulary::Prefix).unwrap();
    let note = pair.draft_model().unwrap().info().note.clone().unwrap();
    assert!(note.contains(&format!("drafts the {VOCAB} tokens")), "{note}");
    let found = pair.generate("the", &MethodSpec::default(), 20, 1).unwrap();
    assert_eq!(found.tokens.len(), 20);
}

/// Catches: errors that leave what Python or an editor has written into JSON to be guessed.
#[test]
fn what_python_and_editors_write_is_named() {
    let refused = |spoil: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        Checkpoint::default().write(folder.path());
        spoil(folder.path());
        load(folder.path().to_str().unwrap(), Role::Target).unwrap_err().to_string()
    };
    let marked = |name: &'static str| {
        refused(&move |folder: &Path| {
            let file = folder.join(name);
            let text = ["\u{feff}".as_bytes(), &fs::read(&file).unwrap()].concat();
            fs::write(file, text).unwrap();
        })
    };
    for name in ["config.json", "tokenizer.json"] {
        let error = marked(name);
        assert!(error.contains(name) && error.contains("byte order mark (BOM)"), "{error}");
    }
    for number in ["NaN", "Infinity", "-Infinity"] {
        let error = refused(&|folder: &Path| {
            let file = folder.join("config.json");
            let text = fs::read_to_string(&file).unwrap();
            let text = text.replacen('{', &format!("{{\n\"router_aux\": {number},"), 1);
            fs::write(file, text).unwrap();
        });
        let said = format!("{number} in line 2 is no number of JSON");
        assert!(error.contains("config.json") && error.contains(&said), "{error}");
    }
}
