//! `specdec certify --external --rows`.

use std::fs;

use serde_json::Value;

use super::example;
use crate::cli_support::{refuses, stdout};
use crate::cli_tape_support::TapeFolder;

/// Catches: rows that are not those of the models; a source that is not recorded.
#[test]
fn a_verifier_is_enumerated_on_rows_of_the_embedded_pair() {
    let Some(command) = example("verifier") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (tape, json) = (path("t.jsonl"), path("c.json"));
    stdout(&["tape", "record", "--prompts", "code", "--limit", "3", "-n", "12", "--out", &tape]);
    let certify = ["certify", "--external", &command, "--rows", &tape, "--json", &json];
    let table = stdout(&[&certify[..], &["--vocab", "5", "-k", "2"]].concat());
    assert!(table.contains("rows of models     5  2"), "{table}");
    assert!(table.contains("\nexact: the joint distribution of K + 1 tokens"), "{table}");
    let json: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let rows = &json["rows"];
    assert_eq!(
        (&rows["target"], &rows["draft"]),
        (&"embedded-target".into(), &"embedded-draft".into())
    );
    assert_eq!((&rows["positions"], &rows["tape"]), (&36.into(), &tape.as_str().into()));
}

#[test]
fn rows_without_a_tape_or_models_are_refused() {
    let folder = TapeFolder::new();
    let tape = folder.path("t.jsonl");
    stdout(&["tape", "record", &folder.path("toy"), "--out", &tape]);
    refuses(
        &["certify", "--external", "cat", "--target", "toy:mixed"],
        "--target and --draft name the models of --rows TAPE: give a tape, too",
    );
    let missing = folder.path("missing.jsonl");
    refuses(&["certify", "--external", "cat", "--rows", &missing], "missing.jsonl");
    // The tape is of a toy.
    refuses(&["certify", "--external", "cat", "--rows", &tape], "tokens");
}
