//! `specdec certify`.

use std::fs;

use crate::cli_support::{refuses, specdec, stdout, text};

#[test]
fn one_method_is_certified_without_the_table_of_all_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("certificate.json");
    let table = stdout(&["certify", "--method", "none", "--json", file.to_str().unwrap()]);
    assert!(table.contains("token_match     traversal"), "{table}");
    assert!(table.contains("\nnone  "), "{table}");
    assert!(!table.contains("stale_kv") && !table.contains("F1: "), "{table}");
    assert!(table.contains(" values known on paper, 66 known-wrong methods\n"), "{table}");
    assert!(!table.contains("FAILED"), "{table}");
    let last = table.lines().last().unwrap();
    assert!(last.starts_with("verdict: holds; 0 cells exact with p and q soft"), "{last}");
    assert!(last.ends_with("all 66 known-wrong methods refuted"), "{last}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let cells = json["cells"].as_array().unwrap();
    assert!(cells.iter().all(|c| c["drafter"] == "none"));
    let mutants = json["mutants"].as_array().unwrap();
    assert!(mutants.len() >= 20);
    assert!(mutants.iter().all(|m| !m["killed_by"].as_array().unwrap().is_empty()));
}

#[test]
fn completions_of_a_pair_are_compared_with_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let prompts = folder.path().join("prompts.jsonl");
    fs::write(&prompts, "{\"prompt\": \"ab\"}\n{\"prompt\": \"ba\"}\n").unwrap();
    let json = folder.path().join("certificate.json");
    let sample = ["--target", "toy:mixed", "--tokens", "8000", "--method", "block+model+fixed"];
    let files = ["--prompts", prompts.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let table = stdout(&[["certify"].as_slice(), &sample, &files].concat());
    assert!(table.contains("target toy:mixed\ndraft  toy:mixed\n"), "{table}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let pairs = json["pairs"].as_array().unwrap();
    let samplers = pairs.iter().map(|pair| pair["sampler"].as_str().unwrap());
    assert_eq!(samplers.collect::<Vec<_>>(), ["T=1", "top_k=8"]);
    for pair in pairs {
        assert_eq!((&pair["prompts"], &pair["tokens"]), (&2.into(), &8000.into()));
        // The toys differ enough to be distinguished by this number of tokens.
        let tv = |key: &str| pair[key].as_f64().unwrap();
        assert!(tv("min_detectable_tv") < tv("draft_tv"), "{pair}");
    }
    refuses(&["certify", "--tokens", "9"], "apply to a pair: name it with --target");
    // The command fails before any certification if a model cannot be loaded.
    refuses(&["certify", "--target", "/nowhere/t", "--draft", "toy:mixed"], "no such folder");
}

#[test]
fn unknown_methods_are_refused_with_the_allowed_names() {
    refuses(&["certify", "--method", "rejektion"], "did you mean \"rejection\"?");
    refuses(&["certify", "--method", "rejection+x"], "allowed are rejection, token_match");
}

#[test]
fn an_unwritable_certificate_is_an_error_after_the_table() {
    let output = specdec(&["certify", "--method", "none", "--json", "/nowhere/c.json"]).output();
    let output = output.unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stdout).contains("\nnone  "));
    assert!(text(&output.stderr).contains("cannot write /nowhere/c.json"));
}
