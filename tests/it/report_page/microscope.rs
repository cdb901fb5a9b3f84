//! The token microscope: which generation it opens on, and what it has of a decision.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use specdec::checkpoint::load;
use specdec::model::Role;
use specdec::run::report::{load as load_run, report};
use tempfile::TempDir;

use super::{data, page};
use crate::experiment_support::run_smoke;
use crate::report::reported;
use crate::synthetic::Synthetic;

/// A small run that was traced, changed by `set`.
fn traced(set: &[&str]) -> (TempDir, PathBuf) {
    let out = tempfile::tempdir().unwrap();
    let target = load("toy:mixed", Role::Target).unwrap().model;
    let set = [&["max_tokens=60"], set].concat();
    let running = AtomicBool::new(false);
    let folder = run_smoke(target.as_ref(), &["abc", "bb"], &set, &running, out.path());
    report(&folder).unwrap();
    (out, folder)
}

fn generations(page: &str) -> Vec<Value> {
    data(page)["generations"].as_array().unwrap().clone()
}

fn has_drafts(generation: &Value) -> bool {
    generation["rounds"].as_array().unwrap().iter().any(|round| round[0] != 0)
}

/// All drafted tokens, by round.
fn drafts(generations: &[Value]) -> Vec<&Value> {
    let steps = generations.iter().flat_map(|generation| generation["steps"].as_array().unwrap());
    steps.filter_map(|step| step["nodes"].as_array()).flatten().collect()
}

/// Catches: the microscope opens on plain decoding, or on a cell that stands for no method.
#[test]
fn the_microscope_opens_on_a_drafted_generation() {
    let (_out, folder) = traced(&[]);
    let (synthetic, _) = reported(&Synthetic::large().rows());
    for (folder, has_plain) in [(folder.as_path(), true), (synthetic.path(), false)] {
        let found = generations(&page(folder));
        let run = load_run(folder).unwrap();
        let first = run.cells.iter().find(|cell| cell.id == found[0]["cell"]).unwrap();
        assert!(has_drafts(&found[0]) && first.best, "{}", found[0]["name"]);
        assert!(!first.method.sampling.is_greedy(), "at T = 0, nothing is left to chance");
        let last_drafted = found.iter().rposition(has_drafts).unwrap();
        let first_plain = found.iter().position(|one| !has_drafts(one));
        assert_eq!(first_plain.is_some(), has_plain);
        assert!(first_plain.is_none_or(|plain| last_drafted < plain), "the plain ones come last");
    }
}

/// Catches: the uniform number is that of another node, round, prompt or repeat.
#[test]
fn uniform_numbers_decide_what_was_accepted() {
    for tree in [&[][..], &["sweep.drafter=model_tree", "sweep.tree=3,2", "repeats=2"]] {
        let chain = ["sweep.verifier=rejection", "sweep.temperature=1"];
        let (_out, folder) = traced(&[&chain[..], tree].concat());
        let found = generations(&page(&folder));
        let (mut accepted, mut rejected) = (0, 0);
        for node in drafts(&found) {
            assert_eq!(node["uniform"].is_number(), node["reached"] == true, "{node}");
            let Some(uniform) = node["uniform"].as_f64() else { continue };
            let below = uniform < node["acceptance"].as_f64().unwrap();
            assert!(node["accepted"] == below, "{node}");
            if below { accepted += 1 } else { rejected += 1 }
        }
        assert!(accepted > 10 && rejected > 5, "{accepted} {rejected}");
    }
}

/// Catches: a uniform number is shown that another rule did not compare with the acceptance.
#[test]
fn other_rules_have_no_uniform_numbers() {
    let (_out, folder) = traced(&["sweep.verifier=token_match", "sweep.temperature=1"]);
    let found = generations(&page(&folder));
    let nodes = drafts(&found);
    assert!(nodes.len() > 10 && nodes.iter().all(|node| node["uniform"].is_null()));
}
