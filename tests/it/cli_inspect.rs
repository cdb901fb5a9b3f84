//! `specdec inspect` on toy models.

use serde_json::Value;
use specdec::model::zoo;

use crate::cli_support::{json, refuses, stdout};

const THIRDS: [&str; 5] = ["inspect", "--target", "toy:thirds", "--prompt", "a"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&THIRDS[..], more].concat()
}

fn close(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap();
    assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
}

#[test]
fn inspect_shows_the_closed_form_values_of_the_thirds_toy() {
    // p = (1/3, 2/3), q = (2/3, 1/3).
    let shown = json(&with(&["--draft", "toy:thirds", "--json"]));
    assert_eq!((&shown["prompt_tokens"], &shown["prompt_ids"]), (&1.into(), &vec![0].into()));
    let first = &shown["tokens"][0];
    assert_eq!(first["id"], 1, "the larger logit comes first");
    assert_eq!(first["label"], "b");
    close(&first["logit"], (2.0f64 / 3.0).ln());
    close(&first["probabilities"][0], 2.0 / 3.0);
    close(&first["q"], 1.0 / 3.0);
    close(&first["min_pq"], 1.0 / 3.0);
    close(&shown["overlap"], 2.0 / 3.0);
    let entropy = -(1.0f64 / 3.0 * (1.0f64 / 3.0).ln() + 2.0 / 3.0 * (2.0f64 / 3.0).ln());
    close(&shown["stages"][0]["entropy"], entropy);
    assert_eq!(shown["stages"][0]["kept"], 2);
    close(&shown["stages"][0]["others"], 0.0);
}

#[test]
fn low_temperature_sharpens_and_zero_keeps_only_the_argmax() {
    // T = 1/2 squares the probabilities: (1/9, 4/9) → (1/5, 4/5).
    let half = json(&with(&["--temperature", "0.5", "--json"]));
    assert_eq!(half["stages"][1]["name"], "temperature");
    close(&half["tokens"][0]["probabilities"][1], 0.8);
    let greedy = json(&with(&["--temperature", "0", "--json"]));
    close(&greedy["tokens"][0]["probabilities"][1], 1.0);
    assert_eq!(greedy["stages"][1]["kept"], 1);
    close(&greedy["stages"][1]["entropy"], 0.0);
}

#[test]
fn every_active_processor_is_a_column_in_order() {
    let args = [
        "inspect",
        "--target",
        "toy:mixed",
        "--prompt",
        "ab",
        "--repetition-penalty",
        "1.2",
        "--min-p",
        "0.01",
        "--top-p",
        "0.9",
        "--top-k",
        "3",
        "--temperature",
        "0.7",
    ];
    let shown = json(&[&args[..], &["--json"]].concat());
    let names = shown["stages"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap());
    let names = names.collect::<Vec<_>>();
    assert_eq!(names, ["softmax", "penalties", "temperature", "top_k", "top_p", "min_p"]);
    for (i, _) in names.iter().enumerate() {
        let mass = shown["tokens"].as_array().unwrap().iter();
        let mass: f64 = mass.map(|t| t["probabilities"][i].as_f64().unwrap()).sum();
        assert!((mass - 1.0).abs() < 1e-12, "stage {i} has mass {mass}");
    }
    let table = stdout(&args);
    for column in ["softmax", "penalties", "temperature 0.7", "top_k 3", "top_p 0.9", "min_p 0.01"]
    {
        assert!(table.contains(column), "{table}");
    }
}

#[test]
fn the_table_shows_dropped_tokens_as_a_dash() {
    let table = stdout(&with(&["--top-k", "1"]));
    let row = table.lines().find(|line| line.contains("\"a\"")).unwrap();
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>(),
        ["0", "\"a\"", "-1.0986", "0.333333", "-"]
    );
    assert!(table.contains("tokens kept"));
    assert!(table.contains("entropy"));
}

#[test]
fn tokens_that_are_not_shown_are_summed_up() {
    let args = with(&["--top", "1", "--draft", "toy:thirds"]);
    let table = stdout(&args);
    let row = table.lines().find(|line| line.contains("1 other")).unwrap();
    assert!(row.contains("0.333333") && row.contains("0.666667"), "{row}");
    assert!(table.contains("overlap = sum of min(p, q) = 0.6667"), "{table}");
    assert!(table.contains("\nthe acceptance that runs print is lower: accepted / drafted"));
    assert!(!stdout(&with(&[])).contains("overlap"), "no draft, no overlap");
}

#[test]
fn an_impossible_token_has_a_logit_of_minus_infinity() {
    let args = ["inspect", "--target", "toy:zeros", "--prompt", "ab"];
    assert!(stdout(&args).contains("-inf"));
    let shown = json(&[&args[..], &["--json"]].concat());
    assert_eq!(shown["tokens"][3]["logit"], Value::Null);
}

#[test]
fn bad_inputs_are_refused_in_one_line() {
    refuses(&with(&["--top", "0"]), "--top 0");
    refuses(&with(&["--temperature", "-1"]), "temperature = -1");
    refuses(&with(&["--top-p", "1.5"]), "top_p = 1.5");
    refuses(&with(&["--draft", "toy:nope"]), "unknown toy model \"nope\"");
    refuses(&with(&["--draft", "toy:mixed"]), "vocabular");
    refuses(&with(&["--draft-temperature", "1"]), "--draft-temperature needs --draft");
    refuses(&["inspect", "--target", "toy:thirds", "--prompt", ""], "the prompt is empty");
    refuses(&["inspect", "--target", "toy:thirds", "--prompt", "c"], "not 'c'");
}

/// Catches: a head that is read without the states of its target.
#[test]
fn heads_and_blocks_draft_after_the_prompt() {
    for name in ["head", "exit", "block", "parallel"] {
        let toy = format!("toy:{name}");
        let args = ["inspect", "--target", &toy, "--draft", &toy, "--prompt"];
        let shown = json(&[&args[..], &["cab", "--draft-temperature", "2", "--json"]].concat());
        let draft = zoo::toy(name).unwrap().draft("draft").unwrap();
        let weights = draft.logits(&[2, 0, 1]).unwrap().iter().map(|logit| (logit / 2.0).exp());
        let total = weights.clone().sum::<f64>();
        let weights = weights.collect::<Vec<_>>();
        for token in shown["tokens"].as_array().unwrap() {
            close(&token["q"], weights[token["id"].as_u64().unwrap() as usize] / total);
        }
    }
    let alone = ["inspect", "--target", "toy:head", "--draft", "toy:head", "--prompt", "a"];
    refuses(&alone, "--draft drafts no token after this prompt: a head needs two tokens");
}
