//! `specdec tune`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;
use specdec::run::report::load;

use crate::cli_support::{refuses, specdec, stdout, text};
use crate::report::summary;

/// The choice depends on the speed of this machine; that the choice is measured does not.
#[test]
fn what_is_forecast_to_be_fastest_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let lines = (0..10).map(|i| format!("{{\"prompt\": \"{}\"}}\n", "abcd".repeat(i + 2)));
    fs::write(path("p.jsonl"), lines.collect::<String>()).unwrap();
    let tune = ["tune", "--target", "toy:mixed", "--draft", "toy:mixed", "--seconds", "1", "--out"];
    let prompts = ["--prompts", &path("p.jsonl"), "--max-tokens", "24", "--temperature", "0.8"];
    let out = path("tuned");
    let run = specdec(&[&tune[..], &[&*out], &prompts].concat()).output().unwrap();
    let (stdout, stderr) = (text(&run.stdout), text(&run.stderr));
    if !run.status.success() {
        assert!(stderr.contains("other work disturbed this machine"), "{stderr}");
        return;
    }
    // A run that other work disturbed says so below the table.
    let rows = stdout.lines().skip(2).filter(|line| !line.starts_with("DISTURBED"));
    let rows = rows.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = rows.collect::<Vec<_>>();
    assert_eq!(rows.len(), 3, "{stdout}");
    for row in &rows {
        let numbers = row[3..8].iter().map(|x| x.parse::<f64>().unwrap()).collect::<Vec<_>>();
        // Ten completions of 24 tokens on each side.
        assert!(numbers.len() == 5 && (numbers[0] / numbers[1] - 1.0).abs() < 0.4, "{stdout}");
    }
    assert!(rows.iter().any(|row| row[0] == "model"), "{stdout}");
    let distinct = rows.iter().map(|row| [&row[..3], &row[8..]].concat());
    assert_eq!(distinct.collect::<BTreeSet<_>>().len(), 3, "{stdout}");
    // 0.7 · 0.8 is 0.5599999999999999 in f64.
    let tape = fs::read_to_string(dir.path().join("tuned/tape.jsonl")).unwrap();
    assert!(tape.contains("\"draft_temperature\":0.56}") && !tape.contains("0.559"), "{tape}");
    for made in ["tape.jsonl", "costs.csv", "experiment.toml"] {
        assert!(dir.path().join("tuned").join(made).is_file(), "{made}");
    }
    refuses(&[&tune[..], &[&*out], &prompts].concat(), "exists already: name another folder");
    measured_as_forecast(&dir.path().join("tuned"), &rows);
}

/// Checks the table against the files of the folder. The costs of `costs.csv` give the forecasts, the
/// fitted ones those of the run, and the results are the measurements.
/// Catches: the slowest forecasts are measured, or several of one drafter; columns are exchanged; the
/// tape has the completions of the run.
fn measured_as_forecast(tuned: &Path, table: &[Vec<&str>]) {
    let path = |name: &str| tuned.join(name).to_str().unwrap().to_owned();
    let forecast = |costs: &Path| {
        let csv = path("forecast.csv");
        let costs = costs.to_str().unwrap();
        stdout(&["forecast", &path("tape.jsonl"), "--costs", costs, "--csv", &csv]);
        let rows = csv::Reader::from_path(csv).unwrap().into_deserialize();
        let rows = rows.map(Result::unwrap).collect::<Vec<BTreeMap<String, String>>>();
        rows.into_iter().filter(|row| row["verifier"] != "token_match").collect::<Vec<_>>()
    };
    let number = |text: &str| text.parse::<f64>().unwrap();
    let shown = |speedup: f64| format!("{speedup:.2}");
    let largest_first = |mut all: Vec<f64>| {
        all.sort_by(|a, b| b.total_cmp(a));
        all.into_iter().map(shown).collect::<Vec<_>>()
    };
    let mut best = BTreeMap::<_, f64>::new();
    for row in forecast(&tuned.join("costs.csv")) {
        let own = best.entry((row["drafter"].clone(), row["params"].clone())).or_default();
        *own = own.max(number(&row["speedup"]));
    }
    let found = largest_first(table.iter().map(|row| number(row[5])).collect());
    assert_eq!(found, largest_first(best.into_values().collect())[..3], "the best of each drafter");
    let only = |folder: &Path| fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let folder = only(&only(&tuned.join("results")));
    let results = load(&folder).unwrap();
    let measured = summary(&results);
    for row in table {
        let is = |drafter: &str, verifier: &str, k: &str| row[..3] == [drafter, verifier, k];
        let settings = row[8..].join(" ");
        let own = measured.iter().filter(|own| {
            let k = own.num_speculative_tokens.unwrap_or(0).to_string();
            is(&own.drafter, &own.verifier, &k)
        });
        let own = own.map(|own| [own.block_efficiency, own.speedup].map(|x| shown(x.unwrap())));
        assert!(
            own.clone().any(|own| own == [row[4], row[7]]),
            "{row:?} is not in {:?}",
            own.collect::<Vec<_>>()
        );
        if row[0] == "model" && row[6] != "-" {
            let fitted = forecast(&folder.join("fitted-costs-model.csv"));
            let mut fitted = fitted.iter().filter(|own| {
                (settings.is_empty() || own["params"] == settings)
                    && is(&own["drafter"], &own["verifier"], &own["num_speculative_tokens"])
            });
            assert!(fitted.any(|own| shown(number(&own["speedup"])) == row[6]), "{row:?}");
        }
    }
    let tape = fs::read_to_string(path("tape.jsonl")).unwrap();
    let header = serde_json::from_str::<Value>(tape.lines().next().unwrap()).unwrap();
    assert_ne!(header["tape"]["seed"].as_u64(), Some(results.plan.seed));
}

#[test]
fn what_cannot_be_loaded_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("tuned").to_str().unwrap().to_owned();
    refuses(&["tune", "--target", "toy:none", "--out", &out], "target");
    assert!(!fs::exists(&out).unwrap());
}
