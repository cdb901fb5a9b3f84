//! Heads by name: tap drafts, settings in `configs/models.toml`, and the commands that take heads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use specdec::checkpoint::pair::Pair;
use specdec::model::LanguageModel;

use super::gguf_files::dflash;
use super::history::histories;
use super::parity::{folder, text};
use super::toys::drafted;
use crate::asking::spec;
use crate::cli_support::{refuses, specdec};
use crate::fixtures::seeded;

/// The embedded draft as a tap draft, whose features are multiplied by `fc(number of the weight)`.
fn tap_draft(to: &Path, fc: impl Fn(usize) -> f32) {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/draft");
    let mut config =
        serde_json::from_str::<Value>(&fs::read_to_string(own.join("config.json")).unwrap())
            .unwrap();
    config["model_type"] = json!("tap_draft");
    config["eagle_aux_hidden_state_layer_ids"] = json!([3, 7]);
    fs::write(to.join("config.json"), config.to_string()).unwrap();
    let bytes = fs::read(own.join("model.safetensors")).unwrap();
    let stored = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors = stored.iter().collect::<BTreeMap<_, _>>();
    let numbers = |count: usize, number: &dyn Fn(usize) -> f32| {
        (0..count).flat_map(|i| number(i).to_le_bytes()).collect::<Vec<_>>()
    };
    let (fc, ones) = (numbers(128 * 768, &fc), numbers(384, &|_| 1.0));
    let view = |shape: &[usize], data| TensorView::new(Dtype::F32, shape.to_vec(), data).unwrap();
    tensors.insert("fc.weight", view(&[128, 768], &fc));
    tensors.insert("fc_norm.0.weight", view(&[384], &ones));
    tensors.insert("fc_norm.1.weight", view(&[384], &ones));
    let file = safetensors::serialize(tensors, None).unwrap();
    fs::write(to.join("model.safetensors"), file).unwrap();
}

/// Catches: features that reach rows of drafted tokens, or that are not added; a first token
/// without a row.
#[test]
fn a_tap_draft_begins_as_its_draft_model() {
    let embedded = |draft: &str| {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
        Pair::load(text(&models.join("target"))).unwrap().with_draft(draft).unwrap()
    };
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    tap_draft(dirs[0].path(), |_| 0.0);
    tap_draft(dirs[1].path(), |i| ((i * 37 % 101) as f32 - 50.0) / 5e4);
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/draft");
    let [model, zero, other] =
        [text(&own), text(dirs[0].path()), text(dirs[1].path())].map(|draft| embedded(&draft));
    let found = |pair: &Pair| {
        let models = [&*pair.target.model, pair.draft_model().unwrap()];
        drafted(models, &spec("model", 4, &[]), &[0, 5, 9, 200])
    };
    assert!(found(&zero) == found(&model) && found(&other) != found(&model));
    let models: [&dyn LanguageModel; 2] = [&*other.target.model, other.draft_model().unwrap()];
    histories(models, false, &mut seeded(50));
}

/// Runs a command in a folder whose `configs/models.toml` names a target and heads.
fn lab() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("configs")).unwrap();
    let entry = |name: &str, case: &str, more: &str| {
        format!("[{name}]\npath = \"{}\"\n{more}\n", text(&folder(case)))
    };
    let models = [
        entry("big", "llama", ""),
        entry("other", "qwen3", ""),
        entry("plain", "eagle3_plain", ""),
        entry("forged", "eagle3_specforge", "feedback = \"pre\"\ntaps = \"as_written\""),
        entry("open", "eagle3_specforge", ""),
        entry("early", "mtp_speculators", "first_row = \"extra\""),
        entry("wrong", "eagle3_plain", "engine = \"candle\""),
        "[block]\npath = \"block.gguf\"\n".to_owned(),
    ];
    fs::write(dir.path().join("block.gguf"), dflash("dspark_vanilla", false).bytes()).unwrap();
    fs::write(dir.path().join("configs/models.toml"), models.concat()).unwrap();
    // Short ones, since the targets have 128 positions.
    let prompts =
        ["abc cab", "the inn"].map(|text| json!({"id": text, "prompt": text}).to_string());
    fs::write(dir.path().join("short.jsonl"), prompts.join("\n")).unwrap();
    dir
}

fn ran(dir: &Path, args: &[&str]) -> String {
    let output = specdec(args).current_dir(dir).output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

#[test]
fn models_lists_heads_with_the_targets_that_they_fit() {
    let dir = lab();
    let listed = serde_json::from_str::<Value>(&ran(dir.path(), &["models", "--json"])).unwrap();
    let of = |name: &str| {
        let models = listed["models"].as_array().unwrap();
        models.iter().find(|model| model["name"] == name).unwrap().clone()
    };
    assert_eq!(of("plain")["family"], "eagle3 head");
    assert_eq!(of("plain")["drafts_for"], json!(["big"]));
    assert_eq!(of("open")["drafts_for"], json!(["big"]));
    assert_eq!(of("early")["family"], "mtp head");
    assert_eq!(of("early")["drafts_for"], json!(["other"]));
    assert_eq!(of("block")["family"], "dflash head");
    assert_eq!(of("block")["drafts_for"], json!(["other"]));
}

#[test]
fn settings_of_heads_are_read_from_the_catalog() {
    let dir = lab();
    let generate = |target: &str, draft: &str| {
        let args = ["generate", "--target", target, "--draft", draft, "--prompt", "abc"];
        ran(dir.path(), &[&args[..], &["-n", "8", "--temperature", "0"]].concat())
    };
    for (target, draft) in [("big", "forged"), ("other", "early"), ("big", "target:exit=4")] {
        assert!(generate(target, draft).contains("guarantee G"), "{draft}");
    }
    for (draft, part) in [
        ("open", "norm_output is true"),
        ("wrong", "heads run with engine = native"),
        ("early", "where hidden_size is 24"),
        ("target:exit=7", "the number of layers must be from 1 to 6"),
        ("target:mtp", "the target's files have no MTP layer"),
        ("target:head", "target:mtp and target:exit=N can draft"),
    ] {
        let said = generate("big", draft);
        assert!(said.starts_with("error: ") && said.contains(part), "{draft}: {said}");
    }
    assert!(generate("plain", "big").contains("a head, which computes nothing without a target"));
}

/// Catches: readings that differ in nothing, or an overlap of another position.
#[test]
fn taps_are_found_by_their_overlap() {
    let args = ["models", "--find-taps", "plain", "--target", "big", "--prompts", "short.jsonl"];
    let found = ran(lab().path(), &args);
    let rows = found.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let rows = rows.map(|line| line.split_whitespace().collect::<Vec<_>>()).collect::<Vec<_>>();
    let read = rows.iter().map(|row| row[..4].join(" ")).collect::<Vec<_>>();
    let expected = ["1, 2, 3", "2, 3, 4", "3, 4, 5"];
    let expected = expected.iter().flat_map(|taps| ["pre", "post"].map(|f| format!("{taps} {f}")));
    assert_eq!(read, expected.collect::<Vec<_>>());
    // The feedback changes nothing before the second position.
    assert!(rows.chunks(2).all(|pair| pair[0][5..] != pair[1][5..]), "{found}");
    refuses(&["models", "--prompts", "code"], "--prompts is for --find-taps");
}

/// q of a head depends on where its draft begins: a tape has the drafts from every token on. So does
/// one of the target's first layers.
/// Catches: a draft that has no sequence of its own is refused.
#[test]
fn a_tape_is_scored_with_a_head() {
    let dir = lab();
    let on = |args: &[&str]| ran(dir.path(), &[args, &["--target", "big"]].concat());
    on(&["tape", "record", "--out", "tape.jsonl", "--prompts", "short.jsonl", "-n", "6"]);
    for draft in ["plain", "target:exit=1"] {
        on(&["tape", "score", "tape.jsonl", "--draft", draft, "--most", "2", "--overlap"]);
    }
    let lines = fs::read_to_string(dir.path().join("tape.jsonl")).unwrap();
    let starts = lines.lines().filter(|line| line.contains("\"starts\"")).collect::<Vec<_>>();
    assert_eq!(starts.len(), 4);
    assert!(starts.iter().all(|line| line.contains("\"level\"")), "{lines}");
    // One for each token, unless the text ended before.
    assert!(starts.iter().all(|line| (2..=6).contains(&line.matches("\"n\":").count())), "{lines}");
}
