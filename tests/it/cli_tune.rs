//! `specdec tune`.

use std::fs;

use crate::cli_support::{refuses, specdec, text};

/// The choice depends on the speed of this machine; that the choice is measured does not.
#[test]
fn what_is_forecast_to_be_fastest_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let lines = (0..10).map(|i| format!("{{\"prompt\": \"{}\"}}\n", "abcd".repeat(i + 2)));
    fs::write(path("p.jsonl"), lines.collect::<String>()).unwrap();
    let tune = ["tune", "--target", "toy:mixed", "--draft", "toy:mixed", "--seconds", "1", "--out"];
    let prompts = ["--prompts", &path("p.jsonl"), "--max-tokens", "24"];
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
        let numbers = row[3..].iter().map(|x| x.parse::<f64>().unwrap()).collect::<Vec<_>>();
        // Ten completions of 24 tokens on each side.
        assert!(numbers.len() == 5 && (numbers[0] / numbers[1] - 1.0).abs() < 0.4, "{stdout}");
    }
    assert!(rows.iter().any(|row| row[0] == "model"), "{stdout}");
    for made in ["tape.jsonl", "costs.csv", "experiment.toml"] {
        assert!(dir.path().join("tuned").join(made).is_file(), "{made}");
    }
    refuses(&[&tune[..], &[&*out], &prompts].concat(), "exists already: name another folder");
}

#[test]
fn what_cannot_be_loaded_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("tuned").to_str().unwrap().to_owned();
    refuses(&["tune", "--target", "toy:none", "--out", &out], "target");
    assert!(!fs::exists(&out).unwrap());
}
