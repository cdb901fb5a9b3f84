//! The command line on random Llama checkpoints.

use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use crate::checkpoint::{Checkpoint, VOCAB};
use crate::cli_support::{json, refuses, specdec, stdout, text};

/// A target and a draft in a temporary folder.
struct Pair {
    _folder: TempDir,
    target: String,
    draft: String,
}

fn pair(target: Checkpoint, draft: Checkpoint) -> Pair {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, checkpoint: &Checkpoint| {
        let path = folder.path().join(name);
        checkpoint.write(&path);
        path.to_str().unwrap().to_owned()
    };
    let (target, draft) = (write("target", &target), write("draft", &draft));
    Pair { _folder: folder, target, draft }
}

fn default_pair() -> Pair {
    // The draft has the target's weights with flatter logits, so that some drafts are
    // accepted and some rejected.
    let flat = Checkpoint { sharpness: 1.5, ..Checkpoint::default() };
    pair(Checkpoint::default(), flat)
}

impl Pair {
    fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let common = ["generate", "--target", &self.target, "--draft", &self.draft];
        [&common[..], &["--prompt", "the inn", "-n", "40"], more].concat()
    }
}

#[test]
fn speculative_greedy_completions_equal_plain_ones() {
    let pair = default_pair();
    let run = |more: &[&str]| {
        let args = [&["--temperature", "0", "--ignore-eos", "--json"], more].concat();
        json(&pair.args(&args))
    };
    let plain = run(&["--plain"]);
    assert_eq!(plain["tokens"].as_array().unwrap().len(), 40);
    assert_eq!(plain["settings"]["engine"], "native");
    for more in [&["-k", "1"][..], &["-k", "4"], &["-k", "7"], &["--drafter", "prompt_lookup"]] {
        let speculative = run(more);
        assert_eq!(speculative["tokens"], plain["tokens"], "{more:?}");
        assert_eq!(speculative["text"], plain["text"], "{more:?}");
    }
}

#[test]
fn streamed_text_is_complete_and_in_whole_characters() {
    // A random model emits bytes that are not valid UTF-8; the streamed text must be valid
    // and must equal the whole text.
    let pair = default_pair();
    for seed in ["1", "2", "3"] {
        let args = pair.args(&["--seed", seed, "--ignore-eos"]);
        let output = specdec(&args).output().unwrap();
        let whole = json(&[&args[..], &["--json"]].concat());
        assert_eq!(text(&output.stdout), whole["text"].as_str().unwrap(), "seed {seed}");
    }
}

#[test]
fn inspect_cuts_padding_rows_and_shows_the_overlap() {
    let pair = default_pair();
    let common = ["inspect", "--target", &pair.target, "--draft", &pair.draft];
    let shown = json(&[&common[..], &["--prompt", "the", "--top", "5", "--json"]].concat());
    assert_eq!(shown["vocab"], VOCAB, "padding rows are cut off");
    assert_eq!(shown["tokens"].as_array().unwrap().len(), 5);
    let overlap = shown["overlap"].as_f64().unwrap();
    assert!(overlap > 0.0 && overlap < 1.0);
}

#[test]
fn broken_models_are_refused_in_one_line() {
    let pair = default_pair();
    let refuse = |part: &str| refuses(&pair.args(&[]), part);
    let weights = PathBuf::from(&pair.draft).join("model.safetensors");
    let whole = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &whole[..whole.len() / 2]).unwrap();
    refuse("model.safetensors");
    std::fs::remove_file(&weights).unwrap();
    refuse("model.safetensors");
    std::fs::write(&weights, with_nan(&whole)).unwrap();
    refuse("NaN or infinite");
    std::fs::write(&weights, whole).unwrap();
    let tokenizer = Path::new(&pair.draft).join("tokenizer.json");
    std::fs::write(&tokenizer, "{").unwrap();
    refuse("tokenizer.json");
    std::fs::remove_file(&tokenizer).unwrap();
    refuse("tokenizer.json");
}

#[test]
fn unsupported_or_mismatched_models_are_refused() {
    let strange = Checkpoint { config: json!({"model_type": "mamba"}), ..Checkpoint::default() };
    let pair = pair(Checkpoint::default(), strange);
    refuses(&pair.args(&[]), "mamba");
    let toy = ["generate", "--target", &pair.target, "--draft", "toy:mixed", "--prompt", "the"];
    refuses(&toy, "must share one vocabulary");
    let alone = ["generate", "--target", &pair.target, "--prompt", "the"];
    refuses(&alone, "name one with --draft");
    let long = "x".repeat(200);
    refuses(
        &["generate", "--plain", "--target", &pair.target, "--prompt", &long],
        "has room for 96",
    );
}

/// The same file with every f32 weight replaced by NaN.
fn with_nan(safetensors: &[u8]) -> Vec<u8> {
    let mut bytes = safetensors.to_vec();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for value in bytes[8 + header..].chunks_exact_mut(4) {
        value.copy_from_slice(&f32::NAN.to_le_bytes());
    }
    bytes
}

#[test]
fn inspect_states_the_dtype_of_the_weights() {
    let narrow =
        pair(Checkpoint { intermediate: 72, ..Checkpoint::default() }, Checkpoint::default());
    let run = |dtype| {
        let args = ["inspect", "--target", &narrow.target, "--prompt", "a", "--dtype", dtype];
        stdout(&args)
    };
    let note = "matrices whose rows have 48 and 72 weights, not a multiple of 32, stay f32";
    assert!(run("q8_0").contains(&format!("target in q8_0 (engine native): {note}")));
    assert!(run("bf16").contains("target in bf16 (engine native)\n"));
    let args = ["inspect", "--target", &narrow.target, "--prompt", "a", "--kv-cache-dtype", "f16"];
    assert!(stdout(&args).contains("target in f32 (engine native): keys and values in f16\n"));
}
