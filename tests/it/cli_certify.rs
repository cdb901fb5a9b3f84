//! `specdec certify`.

use std::fs;

use crate::cli_support::{refuses, specdec, stdout, text};

#[test]
fn certifies_one_method_and_prints_the_kill_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("certificate.json");
    let table = stdout(&["certify", "--method", "none", "--json", file.to_str().unwrap()]);
    assert!(table.contains("token_match     traversal"), "{table}");
    assert!(table.contains("\nnone  "), "{table}");
    assert!(table.contains("stale_kv"), "{table}");
    assert!(!table.contains("FAILED"), "{table}");
    let last = table.lines().last().unwrap();
    assert!(last.starts_with("verdict: holds; 0 cells exact with p and q soft"), "{last}");
    assert!(last.ends_with("all 54 known-wrong methods refuted"), "{last}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let cells = json["cells"].as_array().unwrap();
    assert!(cells.iter().all(|c| c["drafter"] == "none"));
    let mutants = json["mutants"].as_array().unwrap();
    assert!(mutants.len() >= 20);
    assert!(mutants.iter().all(|m| !m["killed_by"].as_array().unwrap().is_empty()));
}

#[test]
fn unknown_methods_are_refused_with_what_is_allowed() {
    refuses(&["certify", "--method", "rejektion"], "did you mean \"rejection\"?");
    refuses(&["certify", "--method", "rejection+x"], "allowed are rejection, token_match");
}

#[test]
fn an_unwritable_certificate_is_an_error_after_the_table() {
    let output = specdec(&["certify", "--method", "none", "--json", "/nowhere/c.json"]).output();
    let output = output.unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stdout).contains("\nnone  "));
    assert!(text(&output.stderr).contains("cannot write the certificate to /nowhere/c.json"));
}
