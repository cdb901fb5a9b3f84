//! Beam search and best of N on the command line.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cli_support::{self, refuses, specdec, stdout, text};

const TOY: [&str; 5] = ["generate", "--target", "toy:mixed", "ab", "--json"];

fn json(args: &[&str]) -> Value {
    cli_support::json(&[&TOY[..], args].concat())
}

#[test]
fn beams_are_printed_best_first_with_any_drafter() {
    let args = ["--num-beams", "4", "--num-return-sequences", "3", "-n", "12"];
    let drafted = json(&args);
    let plain = json(&[&args[..], &["--plain"]].concat());
    assert_eq!(drafted["texts"], plain["texts"]);
    let (drafted, stats) = (&drafted["stats"], &plain["stats"]);
    assert_eq!(stats["target_forwards"], stats["rows"]);
    assert_eq!(drafted["rows"], stats["rows"]);
    assert!(drafted["target_forwards"].as_u64() < stats["target_forwards"].as_u64());
    let completions = plain["texts"].as_array().unwrap();
    let scores = completions.iter().map(|one| one["score"].as_f64().unwrap()).collect::<Vec<_>>();
    assert!(scores.len() == 3 && scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    let text = stdout(&["generate", "--target", "toy:mixed", "ab", "--num-beams", "4", "-n", "12"]);
    assert_eq!(text, completions[0]["text"].as_str().unwrap());
}

#[test]
fn a_stop_string_ends_a_beam_and_is_not_part_of_its_text() {
    let found =
        json(&["--num-beams", "6", "--num-return-sequences", "6", "-n", "9", "--stop", "cb"]);
    let completions = found["texts"].as_array().unwrap();
    let stopped = completions.iter().filter(|one| one["stop_reason"] == "stop_string");
    assert!(stopped.clone().count() > 0, "{found}");
    assert!(completions.iter().all(|one| !one["text"].as_str().unwrap().contains("cb")), "{found}");
}

#[test]
fn options_that_a_search_ignores_are_refused() {
    for (args, part) in [
        (&["--num-beams", "0"][..], "num_beams = 0: allowed are 1 to 256"),
        (&["--num-beams", "2", "--diversity-penalty=-1"], "allowed are finite numbers >= 0"),
        (&["--num-beams", "2", "--temperature", "0.5"], "leave out sampling options"),
        (&["--num-beams", "2", "--verifier", "typical"], "leave out --verifier typical"),
        (&["--num-beams", "2", "--timeout", "1"], "leave out --show-draft and --timeout"),
        (&["--num-beams", "2", "--samples", "2"], "leave out --num-beams"),
        (&["--samples", "0"], "--samples is out of range"),
    ] {
        refuses(&[&TOY[..], args].concat(), part);
    }
}

/// clap's refusals end with a line about --help.
#[test]
fn wrong_options_are_refused() {
    for (args, part) in [
        (&["--length-penalty", "2"][..], "--num-beams <B>"),
        (&["--num-beams", "2", "--early-stopping", "no"], "allowed are true, false, never"),
        (&["--samples", "2", "--best-of", "best"], "allowed are logprob, length_normalised"),
        (&["--samples", "2", "--best-of", "logprob=a"], "logprob reads no answers"),
        (&["--samples", "2", "--best-of", "majority=("], "not a regular expression"),
    ] {
        let output = specdec(&TOY).args(args).output().unwrap();
        let stderr = text(&output.stderr);
        assert!(!output.status.success() && stderr.contains(part), "{args:?}: {stderr}");
    }
}

#[test]
fn sample_i_is_the_same_for_any_number_of_samples() {
    let one = json(&["--seed", "3", "-n", "8"]);
    let of = |n: &str| json(&["--seed", "3", "-n", "8", "--samples", n])["texts"].clone();
    let (two, seven) = (of("2"), of("7"));
    assert_eq!(two[0]["text"], one["text"]);
    for i in 0..2 {
        for key in ["text", "tokens", "log_prob", "stop_reason"] {
            assert_eq!(two[i][key], seven[i][key]);
        }
    }
    let completions = seven.as_array().unwrap().iter().map(|one| one["text"].to_string());
    assert!(completions.collect::<BTreeSet<_>>().len() > 3, "{seven}");
}

/// The choice follows from the printed completions alone.
#[test]
fn the_choice_follows_its_rule() {
    let run = |best_of: &str| json(&["--samples", "16", "-n", "6", "--best-of", best_of]);
    let completions = |run: &Value| run["texts"].as_array().unwrap().clone();
    let chosen = |run: &Value| run["chosen"].as_u64().unwrap() as usize;
    let first_largest = |scores: &[f64]| {
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        scores.iter().position(|&score| score == most).unwrap()
    };
    let log_p = |one: &Value| one["log_prob"].as_f64().unwrap();
    let by_sum = run("logprob");
    assert_eq!(
        chosen(&by_sum),
        first_largest(&completions(&by_sum).iter().map(log_p).collect::<Vec<_>>())
    );
    let mean = |one: &Value| log_p(one) / one["tokens"].as_array().unwrap().len() as f64;
    let by_mean = run("length_normalised");
    assert_eq!(
        chosen(&by_mean),
        first_largest(&completions(&by_mean).iter().map(mean).collect::<Vec<_>>())
    );
    // The letter after the last "b", if there is one.
    let voted = run("majority=b([acd])");
    let answer = |one: &Value| {
        let letters = one["text"].as_str().unwrap().chars().collect::<Vec<_>>();
        let pairs = letters.windows(2).rev();
        pairs.filter(|pair| pair[0] == 'b' && pair[1] != 'b').map(|pair| pair[1]).next()
    };
    let answers = completions(&voted).iter().map(answer).collect::<Vec<_>>();
    let mut votes = BTreeMap::new();
    answers.iter().flatten().for_each(|answer| *votes.entry(*answer).or_insert(0) += 1);
    let most = votes.values().max().unwrap();
    let first = answers.iter().position(|a| a.is_some_and(|a| votes[&a] == *most)).unwrap();
    assert_eq!((chosen(&voted), voted["votes"].as_u64()), (first, Some(*most)), "{answers:?}");
    let nothing = run("majority=x");
    assert_eq!((chosen(&nothing), &nothing["votes"]), (0, &Value::from(0)));
}

#[test]
fn the_beams_of_a_search_are_drawn_as_a_tree() {
    let inspect = ["inspect", "--target", "toy:mixed", "ab", "--beams", "3", "--tokens", "3"];
    let shown = stdout(&inspect);
    let (heading, tree) = shown.split_once('\n').unwrap();
    let what = "beam search of width 3 after 2 prompt tokens of toy:mixed, up to 3 tokens: log p";
    assert!(heading.starts_with(what), "{heading}");
    let ends = |what: &str| tree.lines().filter(|line| line.contains(what)).count();
    assert_eq!(ends("finished: max_tokens, score"), 3, "{tree}");
    assert!(tree.starts_with("├─ ") && tree.contains("└─ "), "{tree}");
    let nodes = cli_support::json(&[&inspect[..], &["--json"]].concat());
    let nodes = nodes.as_array().unwrap();
    assert_eq!(nodes.len(), tree.lines().count());
    for node in nodes {
        let parent = node["parent"].as_u64().map(|at| &nodes[at as usize]);
        assert_eq!(
            node["step"].as_u64().unwrap(),
            1 + parent.map_or(0, |p| p["step"].as_u64().unwrap())
        );
        assert!(parent.is_none_or(|p| p["log_prob"].as_f64() >= node["log_prob"].as_f64()));
    }
}
