//! `specdec check` and `specdec new`.

use serde_json::Value;

use crate::cli_support::specdec;

/// Times depend on the machine; what follows from the drafts alone does not.
#[test]
fn a_check_reports_what_every_draft_length_would_give() {
    let args = "check --target toy:mixed --max-tokens 40 --limit 9 --seconds 1 --json";
    let args = args.split(' ').collect::<Vec<_>>();
    let dir = tempfile::tempdir().unwrap();
    let prompts = dir.path().join("p.jsonl");
    let lines = (0..12).map(|i| format!("{{\"prompt\": \"{}\"}}\n", "ab".repeat(i + 32)));
    std::fs::write(&prompts, lines.collect::<String>()).unwrap();
    let prompts = ["--prompts", prompts.to_str().unwrap()];
    let run = || {
        let out = specdec(&args).args(prompts).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice::<Value>(&out.stdout).unwrap()
    };
    let (first, again) = (run(), run());
    assert_eq!(first["prompts"], 9);
    assert_eq!(first["passes_us"].as_array().unwrap().len(), 9);
    let lengths = first["lengths"].as_array().unwrap();
    assert_eq!(lengths.len(), 8);
    let mut before = 1.0;
    for (length, same) in lengths.iter().zip(again["lengths"].as_array().unwrap()) {
        assert_eq!(length["acceptance"], same["acceptance"]);
        let tokens = length["tokens_per_round"].as_f64().unwrap();
        assert!(tokens >= before, "a longer draft cannot give fewer tokens");
        before = tokens;
    }
    let verdicts = ["faster", "undecided", "slower", "too_few_prompts", "disturbed"];
    assert!(verdicts.contains(&first["verdict"].as_str().unwrap()));
}

#[test]
fn default_prompts_that_do_not_fit_are_called_defaults() {
    let out = specdec(&["check", "--target", "toy:mixed"]).output().unwrap();
    let sentence = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        !out.status.success() && sentence.contains(", used by default (--prompts): "),
        "{sentence}"
    );
}

#[test]
fn a_new_experiment_runs_as_it_is_and_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let new = |args: &[&str]| specdec(&["new"]).current_dir(&dir).args(args).output().unwrap();
    let out = new(&["mine", "--prompts", "a \"quoted\" file.jsonl", "--prompts", "code"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(dir.path().join("mine/experiment.toml")).unwrap();
    assert!(text.contains("prompts = ['a \"quoted\" file.jsonl', \"code\"]"), "{text}");
    let again = new(&["mine"]);
    assert!(!again.status.success());
    let sentence = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(sentence.contains("mine/experiment.toml exists already"), "{sentence}");
    let unreadable = new(&["small", "--target", "toy:mixed"]);
    assert!(!unreadable.status.success() && !dir.path().join("small").exists());
    let sentence = String::from_utf8_lossy(&unreadable.stderr).into_owned();
    assert!(
        sentence.contains("--prompts is missing: a toy model knows a few letters"),
        "{sentence}"
    );
    let out = new(&["small", "--target", "toy:mixed", "--prompts", "p.jsonl"]);
    assert!(out.status.success());
    std::fs::write(dir.path().join("p.jsonl"), "{\"prompt\": \"abab\"}\n").unwrap();
    let ran = specdec(&["run", "small", "--quick"]).current_dir(&dir).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
