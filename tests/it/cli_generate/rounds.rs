//! The rounds and log-probabilities of `specdec generate --json`.

use serde_json::Value;
use specdec::model::zoo::TOYS;

use super::{json, with};

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

/// Sums and lists of a completion and its rounds agree.
fn check(report: &Value, args: &[&str]) {
    let (stats, rounds) = (&report["stats"], list(&report["rounds"]));
    let number = |key: &str| stats[key].as_u64().unwrap();
    let parts = ["accepted", "corrected", "bonus", "plain"].map(number);
    assert_eq!(parts.iter().sum::<u64>(), number("new_tokens"), "{args:?}: {report}");
    let emitted = rounds.iter().flat_map(|round| list(&round["tokens"])).collect::<Vec<_>>();
    assert_eq!(emitted, list(&report["tokens"]).iter().collect::<Vec<_>>(), "{args:?}");
    assert_eq!(list(&report["logprobs"]).len(), emitted.len());
    assert_eq!(rounds.len() as u64, number("rounds"));
    for key in ["proposed", "accepted"] {
        assert_eq!(
            rounds.iter().map(|round| round[key].as_u64().unwrap()).sum::<u64>(),
            number(key)
        );
    }
    for end in ["corrected", "bonus", "plain"] {
        let own = rounds.iter().filter(|round| round["end"] == end).count();
        assert_eq!(own as u64, number(end), "{args:?}: {end}");
    }
    for round in rounds {
        let (proposed, accepted) = (round["proposed"].as_u64(), round["accepted"].as_u64());
        let drawn = list(&round["tokens"]).len() as u64 - accepted.unwrap();
        assert_eq!(drawn, u64::from(round["end"] != "stopped"), "{round}");
        assert_eq!(round["end"] == "plain", proposed == Some(0), "{round}");
        assert!(round["end"] != "bonus" || proposed >= accepted, "{round}");
    }
}

/// Catches: the token of a round without a draft is in none of the counts.
#[test]
fn counts_add_up_to_the_tokens() {
    let mut plain = 0;
    for toy in TOYS {
        let target = format!("toy:{}", toy.name);
        for more in [
            &["-k", "3"][..],
            &["--drafter", "prompt_lookup", "--temperature", "0"],
            &["--drafter", "model_tree", "--param", "tree=2,1"],
            &["--plain"],
            &["--stop", "ba"],
        ] {
            let common = ["generate", "--target", &target, "ab", "-n", "17", "--json"];
            let args = [&common[..], more].concat();
            let report = json(&args);
            check(&report, &args);
            if more.contains(&"prompt_lookup") {
                plain += report["stats"]["plain"].as_u64().unwrap();
            }
        }
    }
    assert!(plain > 0, "lookups begin without a draft");
}

/// Catches: log p of the unprocessed distribution, or of another position of the round.
#[test]
fn logprobs_are_those_of_the_processed_target() {
    let sampling = ["--temperature", "0.7", "--top-k", "3"];
    let report = json(&[&with(&["-n", "12", "-k", "3", "--json"])[..], &sampling].concat());
    let (text, tokens) = (report["text"].as_str().unwrap(), list(&report["tokens"]));
    for (at, token) in tokens.iter().enumerate() {
        let prompt = format!("ab{}", &text[..at]);
        let inspect = ["inspect", "--target", "toy:mixed", &prompt, "--json"];
        let found = json(&[&inspect[..], &sampling].concat());
        let row = list(&found["tokens"]).iter().find(|row| row["id"] == *token).unwrap();
        let p = list(&row["probabilities"]).last().unwrap().as_f64().unwrap();
        let own = report["logprobs"][at].as_f64().unwrap();
        assert!((own - p.ln()).abs() < 1e-12, "{at}: {own} is not ln {p}");
    }
    let greedy = json(&with(&["-n", "5", "--temperature", "0", "--json"]));
    assert_eq!(greedy["logprobs"], serde_json::json!([0.0, 0.0, 0.0, 0.0, 0.0]));
}

/// Catches: samples and beams lack what a single completion has.
#[test]
fn every_completion_has_logprobs() {
    let one = json(&with(&["-n", "8", "--json"]));
    let samples = json(&with(&["-n", "8", "--samples", "3", "--json"]));
    for key in ["text", "tokens", "logprobs", "rounds"] {
        assert_eq!(samples["texts"][0][key], one[key], "{key}");
    }
    let sum = |found: &Value| {
        list(&found["logprobs"]).iter().map(|own| own.as_f64().unwrap()).sum::<f64>()
    };
    let beams =
        json(&with(&["-n", "8", "--num-beams", "3", "--num-return-sequences", "3", "--json"]));
    for found in list(&samples["texts"]).iter().chain(list(&beams["texts"])) {
        assert!((sum(found) - found["log_prob"].as_f64().unwrap()).abs() < 1e-9, "{found}");
        assert_eq!(list(&found["logprobs"]).len(), list(&found["tokens"]).len());
    }
}

/// Catches: a field that docs/metrics.md does not define, or the reverse.
#[test]
fn every_field_is_documented() {
    let page = include_str!("../../../docs/metrics.md");
    let section = page.split("### `specdec generate --json`").nth(1).unwrap();
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let mut documented = rows.collect::<Vec<_>>();
    let report = json(&with(&["-n", "4", "--json"]));
    let names = |value: &Value, before: &str| {
        let names = value.as_object().unwrap().keys();
        names.map(|name| format!("{before}{name}")).collect::<Vec<_>>()
    };
    let own = names(&report, "").into_iter().filter(|name| name != "stats");
    let parts = [("rounds[].", &report["rounds"][0]), ("stats.", &report["stats"])];
    let parts = parts.iter().flat_map(|(before, part)| names(part, before));
    let mut own = own.chain(parts).collect::<Vec<_>>();
    own.sort_unstable();
    documented.sort_unstable();
    assert_eq!(own, documented);
}
