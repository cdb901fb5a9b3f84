//! Prompts are plain text: with every kind of tokenizer, no string in them becomes a control
//! token unless that is requested. Prompts in tokens are taken as they are.

use std::path::Path;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use specdec::checkpoint::load;
use specdec::core::error::Error;
use specdec::engine::{Settings, Source};
use specdec::model::{Codec, Role};

use crate::checkpoint::{BOS, Checkpoint, EOS, tokenizer_json, write_json};
use crate::cli_support::{json as shown, refuses, specdec, stdout, text as utf8};

/// Loads a checkpoint with this tokenizer and these keys of `config.json`.
fn codec(tokenizer: &Value, config: Value, special_tokens: bool) -> Result<Arc<dyn Codec>, Error> {
    let dir = tempfile::tempdir().unwrap();
    Checkpoint { vocab_rows: 300, config, ..Checkpoint::default() }.write(dir.path());
    write_json(&dir.path().join("tokenizer.json"), tokenizer);
    open(dir.path(), special_tokens)
}

fn open(folder: &Path, special_tokens: bool) -> Result<Arc<dyn Codec>, Error> {
    let settings = Settings { special_tokens, ..Settings::default() };
    let source = Source::from(folder.to_str().unwrap()).with(settings);
    load(source, Role::Target).map(|loaded| loaded.codec)
}

fn added(id: u32, content: &str, special: bool, normalized: bool) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": normalized, "special": special
    })
}

fn tokenizer(model: Value, pre_tokenizer: Value, added: &[Value]) -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": pre_tokenizer, "post_processor": null,
        "decoder": {"type": "Fuse"}, "model": model
    })
}

/// The end token of the tokenizers below.
const END: u32 = 2;

/// A vocabulary like those of SentencePiece, including control tokens.
fn pieces() -> impl Iterator<Item = String> {
    const PIECES: [&str; 11] = ["<unk>", "<s>", "</s>", "▁", "a", "<", "/", "s", ">", "</", "s>"];
    let bytes = (0..=255).map(|byte| format!("<0x{byte:02X}>"));
    PIECES.map(str::to_owned).into_iter().chain(bytes)
}

/// A Unigram model whose best segmentation has `</s>` as one piece.
fn unigram() -> Value {
    let score = |piece: &str| if piece == "</s>" { 0.0 } else { -9.0 };
    let vocab = pieces().map(|piece| json!([piece, score(&piece)])).collect::<Vec<_>>();
    json!({"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": vocab})
}

/// A BPE model that merges `</s>` into one piece, or looks it up as a whole.
fn bpe(ignore_merges: bool) -> Value {
    let vocab = pieces().zip(0..).collect::<std::collections::BTreeMap<_, u32>>();
    let merges =
        if ignore_merges { json!([]) } else { json!([["<", "/"], ["s", ">"], ["</", "s>"]]) };
    json!({
        "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true,
        "ignore_merges": ignore_merges, "vocab": vocab, "merges": merges
    })
}

/// A WordLevel model with `</s>` as a word.
fn words() -> Value {
    let vocab = json!({"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "<": 4, "/s>": 5});
    json!({"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"})
}

/// Tokenizers of every kind whose model has `</s>` as a piece of text, with every way of
/// declaring it as an added token.
fn tokenizers() -> Vec<Value> {
    let metaspace = json!({
        "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": false
    });
    let models = [
        (unigram(), metaspace.clone()),
        (bpe(false), metaspace.clone()),
        (bpe(true), json!({"type": "WhitespaceSplit"})),
        (words(), json!({"type": "WhitespaceSplit"})),
    ];
    let declared = [
        vec![],
        vec![added(0, "<unk>", true, false), added(END, "</s>", true, false)],
        vec![added(END, "</s>", true, true)],
        vec![added(END, "</s>", false, false)],
        vec![added(END, "</s>", false, true)],
    ];
    let with = |(model, pre): (Value, Value)| {
        let declared = declared.clone();
        declared.into_iter().map(move |a| tokenizer(model.clone(), pre.clone(), &a))
    };
    models.into_iter().flat_map(with).collect()
}

#[test]
fn no_prompt_text_encodes_to_the_end_token() {
    let mut rng = ChaCha8Rng::seed_from_u64(13);
    let fragments = ["</s>", "<", "/", "s", ">", "</", "a", " ", "é", "\n", "<unk>", "<s>", "▁"];
    for tokenizer in tokenizers() {
        let codec = codec(&tokenizer, json!({"eos_token_id": END}), false).unwrap();
        for _ in 0..200 {
            let length = rng.random_range(1..12);
            let fragment = |_| fragments[rng.random_range(0..fragments.len())];
            let text = format!("a{}", (0..length).map(fragment).collect::<String>());
            let ids = codec.encode(&text).unwrap();
            assert!(!ids.contains(&END), "{text:?} is {ids:?} with {tokenizer}");
        }
    }
}

#[test]
fn the_special_tokens_setting_allows_control_tokens_in_prompts() {
    for tokenizer in tokenizers() {
        let codec = codec(&tokenizer, json!({"eos_token_id": END}), true).unwrap();
        assert!(codec.encode("a </s> a").unwrap().contains(&END), "{tokenizer}");
        assert_eq!(codec.control_string("a </s> a"), None, "there is nothing to warn about");
    }
}

#[test]
fn a_control_string_is_split_and_the_pieces_around_it_are_kept() {
    let ids = |model: Value, pre_tokenizer: Value, text: &str| {
        let tokenizer = tokenizer(model, pre_tokenizer, &[added(END, "</s>", true, false)]);
        codec(&tokenizer, json!({"eos_token_id": END}), false).unwrap().encode(text).unwrap()
    };
    let [a, open, slash, s, close, s_close] = [4, 5, 6, 7, 8, 10];
    assert_eq!(ids(unigram(), Value::Null, "a</s>a"), [a, open, slash, s_close, a]);
    assert_eq!(ids(bpe(false), Value::Null, "a</s>a"), [a, open, slash, s_close, a]);
    assert_eq!(ids(bpe(true), Value::Null, "</s>"), [open, slash, s, close]);
    // Only control strings are split; the token for unknown text is not one.
    let split = json!({"type": "WhitespaceSplit"});
    assert_eq!(ids(words(), split.clone(), "a </s> a"), [3, 4, 5, 3]);
    assert_eq!(ids(words(), split, "a é a"), [3, 0, 3]);
}

#[test]
fn a_character_that_only_an_end_token_encodes_is_refused() {
    let tokenizer = tokenizer(bpe(false), Value::Null, &[]);
    let config = json!({"eos_token_id": [END, 4]});
    let text = codec(&tokenizer, config, false).unwrap().encode("sas").unwrap_err().to_string();
    let said = "\"a\" can only be encoded as control token 4; --special-tokens, or";
    assert!(text.contains(said), "{text}");
    let both = codec(&tokenizer, json!({"eos_token_id": [END, 4]}), true).unwrap();
    assert_eq!(both.encode("sas").unwrap(), [7, 4, 7]);
}

#[test]
fn added_tokens_for_plain_text_stay_whole() {
    let mut spaces = tokenizer_json();
    spaces["added_tokens"].as_array_mut().unwrap().push(added(262, "    ", false, false));
    let codec = codec(&spaces, json!({}), false).unwrap();
    assert_eq!(codec.encode("    ").unwrap(), [BOS, 262]);
    assert!(!codec.encode("    <|eos|>").unwrap().contains(&EOS));
}

#[test]
fn the_embedded_models_read_control_strings_as_text() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/target");
    let text = "fn main() <|eos|><|bos|> {}";
    let codec = open(&folder, false).unwrap();
    let ids = codec.encode(text).unwrap();
    assert!(!ids.contains(&EOS) && ids.iter().filter(|&&id| id == BOS).count() == 1, "{ids:?}");
    assert_eq!(codec.decode(&ids).unwrap(), text);
    assert_eq!(codec.control_string(text).unwrap(), "<|bos|>");
    assert_eq!(codec.control_string("fn main() {}"), None);
    let ids = open(&folder, true).unwrap().encode(text).unwrap();
    assert!(ids.contains(&EOS));
}

#[test]
fn an_empty_prompt_encodes_to_the_bos_token() {
    let plain = tokenizer(bpe(false), Value::Null, &[]);
    let ids = |tokenizer: &Value, config| codec(tokenizer, config, false).unwrap().encode("");
    assert_eq!(ids(&tokenizer_json(), json!({})).unwrap(), [BOS], "from the tokenizer");
    assert_eq!(ids(&plain, json!({"bos_token_id": 1})).unwrap(), [1], "from the configuration");
    for none in [Value::Null, json!(100_000)] {
        let text = ids(&plain, json!({"bos_token_id": none})).unwrap_err().to_string();
        assert!(text.contains("no beginning-of-text token"), "{text}");
    }
}

#[test]
fn encoding_is_deterministic_despite_bpe_dropout() {
    let mut model = bpe(false);
    model["dropout"] = json!(0.5);
    let codec = codec(&tokenizer(model, Value::Null, &[]), json!({}), false).unwrap();
    let first = codec.encode("</</</s>s>").unwrap();
    assert!((0..20).all(|_| codec.encode("</</</s>s>").unwrap() == first));
}

#[test]
fn commands_read_prompts_as_text_and_warn_about_control_strings() {
    let prompt_tokens = |command: &str, prompt: &str, more: &[&str]| {
        let args = [&[command, "--prompt", prompt, "--json"], more].concat();
        shown(&args)["prompt_tokens"].as_u64().unwrap()
    };
    for (command, more) in [("inspect", &[][..]), ("generate", &["-n", "2", "--plain"][..])] {
        let asked = [more, &["--special-tokens"]].concat();
        assert_eq!(prompt_tokens(command, "", more), 1);
        assert!(prompt_tokens(command, "a<|eos|>b", more) > 4);
        assert_eq!(prompt_tokens(command, "a<|eos|>b", &asked), 4);
        let note = |prompt: &str| {
            let args = [&[command, "--prompt", prompt, "--json"], more].concat();
            utf8(&specdec(&args).output().unwrap().stderr)
        };
        assert_eq!(note("a<|eos>b"), "");
        let note = note("a<|eos|>b");
        assert!(note.contains("\"<|eos|>\"") && note.contains("--special-tokens"), "{note}");
    }
}

#[test]
fn experiments_read_prompts_like_commands() {
    let dir = tempfile::tempdir().unwrap();
    Checkpoint::default().write(&dir.path().join("model"));
    let experiment = "target = \"model\"\nprompts = \"prompts.jsonl\"\nmax_tokens = 2\n\
                      clock = \"virtual\"\nwarmup = 0\n[sweep]\ndrafter = \"prompt_lookup\"\n";
    std::fs::write(dir.path().join("experiment.toml"), experiment).unwrap();
    let prompt = |id, text| json!({"id": id, "category": "c", "prompt": text}).to_string();
    let prompts = [prompt("empty", ""), prompt("control", "a<|eos|>b")].join("\n");
    std::fs::write(dir.path().join("prompts.jsonl"), prompts).unwrap();
    let lengths = |set: &str| {
        let out = tempfile::tempdir().unwrap();
        let (folder, place) = (dir.path().to_str().unwrap(), out.path().to_str().unwrap());
        stdout(&["run", folder, "--out", place, "--set", set]);
        let name = out.path().join(dir.path().file_name().unwrap());
        let run = std::fs::read_dir(name).unwrap().next().unwrap().unwrap().path();
        let mut rows = csv::Reader::from_path(run.join("generations.csv")).unwrap();
        let rows = rows.deserialize::<std::collections::HashMap<String, String>>();
        let length = |row: std::collections::HashMap<String, String>| {
            (row["prompt"].clone(), row["prompt_tokens"].parse::<usize>().unwrap())
        };
        rows.map(|row| length(row.unwrap())).collect::<std::collections::BTreeMap<_, _>>()
    };
    let (text, tokens) = (lengths("special_tokens=false"), lengths("special_tokens=true"));
    assert_eq!((text["empty"], text["control"]), (1, 10));
    assert_eq!((tokens["empty"], tokens["control"]), (1, 4));
}

/// Catches: tokens that a tokenizer changes, that no vocabulary has, or that a template drops.
#[test]
fn prompts_may_be_tokens_of_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let (file, experiment) = (dir.path().join("p.jsonl"), dir.path().join("experiment.toml"));
    let toml = "target = \"toy:mixed\"\nprompts = \"p.jsonl\"\nmax_tokens = 2\n\
                [sweep]\ndrafter = \"prompt_lookup\"\n";
    std::fs::write(&experiment, toml).unwrap();
    let rows = "{\"prompt\": \"abc\"}\n{\"prompt_token_ids\": [0, 1, 2]}\n{\"prompt\": [2, 1]}\n";
    std::fs::write(&file, rows).unwrap();
    let experiment = experiment.to_str().unwrap();
    let out = dir.path().join("out");
    let run = ["run", experiment, "--out", out.to_str().unwrap(), "--clock", "virtual"];
    let report = stdout(&run);
    let plan = Path::new(report.trim()).with_file_name("plan.toml");
    let plan = std::fs::read_to_string(plan).unwrap();
    assert!(plan.contains("[copies]\np-2 = \"p-1\"\n"), "{plan}");
    refuses(&["plan", experiment, "--set", "chat=true"], "prompt p-1 cannot be run");
    std::fs::write(&file, "{\"tokens\": [1, 4]}\n").unwrap();
    let why = "prompt p-1 cannot be run: token 4 lies outside the target's vocabulary of 4 tokens";
    refuses(&["plan", experiment], why);
    let why = "the prompt is a list of tokens, which no chat template writes: leave out chat";
    refuses(&["plan", experiment, "--set", "chat=true"], why);
    let tape = dir.path().join("t.jsonl");
    let record = ["tape", "record", "--target", "toy:mixed", "--out", tape.to_str().unwrap()];
    let record = [&record[..], &["--max-tokens", "2", "--prompts", file.to_str().unwrap()]];
    refuses(&record.concat(), "token 4 lies outside the target's vocabulary of 4 tokens");
}
