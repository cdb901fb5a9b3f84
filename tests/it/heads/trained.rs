//! What a results folder says about its drafter.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::parity::text;
use crate::cli_support::{refuses, stdout};

/// A folder with an experiment whose draft is the embedded one, with a record of its training.
fn lab(record: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/draft");
    fs::create_dir(dir.path().join("own")).unwrap();
    for file in fs::read_dir(own).unwrap().map(|file| file.unwrap().path()) {
        fs::copy(&file, dir.path().join("own").join(file.file_name().unwrap())).unwrap();
    }
    fs::write(dir.path().join("own/training.json"), record).unwrap();
    let prompt = json!({"id": "a", "category": "b", "prompt": "The garden"});
    fs::write(dir.path().join("p.jsonl"), prompt.to_string()).unwrap();
    let experiment = format!(
        "question = \"Which?\"\ntarget = \"embedded-target\"\ndraft = \"{}\"\nclock = \"virtual\"\n\
         prompts = [\"{}\"]\nmax_tokens = 8\n[[sweep]]\ndrafter = \"model\"\n",
        text(&dir.path().join("own")),
        text(&dir.path().join("p.jsonl"))
    );
    fs::write(dir.path().join("experiment.toml"), experiment).unwrap();
    dir
}

fn only(dir: &Path) -> PathBuf {
    fs::read_dir(dir).unwrap().next().unwrap().unwrap().path()
}

fn record(data: Value) -> String {
    let flops = json!({"target": 15_178_414_424_064_u64, "drafter": 2.5});
    json!({"format": "specdec-training 1", "loss": "kl | tv", "flops": flops, "data": data})
        .to_string()
}

/// Catches: a report without the record, or with that of another program's file.
#[test]
fn a_report_has_what_its_draft_was_trained_on() {
    let report = |training: &str| {
        let dir = lab(training);
        let [experiment, out] = ["experiment.toml", "out"].map(|name| dir.path().join(name));
        stdout(&["run", &text(&experiment), "--out", &text(&out)]);
        fs::read_to_string(only(&only(&out)).join("report.md")).unwrap()
    };
    let found = report(&record(json!({"a.bin": "eb7a"})));
    let (_, section) = found.split_once("## Training of the draft").unwrap();
    for line in [
        "| data.a.bin | eb7a |",
        "| flops.drafter | 2.5 |",
        "| flops.target | 15178414424064 |",
        "| loss | kl \\| tv |",
    ] {
        assert!(section.contains(line), "{line} in {section}");
    }
    for others in ["{\"loss\": [1]}", "[1]", "no JSON"] {
        assert!(!report(others).contains("Training of the draft"), "{others}");
    }
}

/// Catches: lists, texts and numbers of entries that a report cannot show.
#[test]
fn a_record_that_no_report_can_show_is_refused() {
    let many = (0..65).map(|i| (format!("k{i}"), json!(i))).collect::<serde_json::Map<_, _>>();
    for (data, words) in [
        (json!({"rows": [1]}), "\"data.rows\" is a list: allowed are texts, numbers and objects"),
        (json!("x".repeat(201)), "\"data\" is too long: allowed are 200 bytes"),
        (Value::Object(many), "it has 68 entries: allowed are 64"),
    ] {
        let dir = lab(&record(data));
        refuses(&["plan", &text(&dir.path().join("experiment.toml"))], words);
    }
}

/// Catches: a tape made of a run counts a draft pass for each token of a block.
#[test]
fn a_tape_of_a_run_knows_what_drafts_at_once() {
    for (toy, once) in [("block", true), ("head", false)] {
        let dir = lab("");
        let experiment = dir.path().join("experiment.toml");
        let text_of = fs::read_to_string(&experiment).unwrap();
        let own = format!("\"{}\"", text(&dir.path().join("own")));
        let name = format!("\"toy:{toy}\"");
        let text_of = text_of.replace(&own, &name).replace("\"embedded-target\"", &name);
        fs::write(&experiment, text_of).unwrap();
        let prompt = json!({"id": "a", "category": "b", "prompt": "ab"});
        fs::write(dir.path().join("p.jsonl"), prompt.to_string()).unwrap();
        let [out, tape] = ["out", "tape.jsonl"].map(|name| dir.path().join(name));
        stdout(&["run", &text(&experiment), "--out", &text(&out)]);
        let run = text(&only(&only(&out)));
        stdout(&["tape", "import", &run, "--format", "specdec", "--out", &text(&tape)]);
        let tape = fs::read_to_string(tape).unwrap();
        assert_eq!(tape.contains("\"at_once\":true"), once, "{tape}");
    }
}
