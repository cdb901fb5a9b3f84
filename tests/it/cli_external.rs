//! `specdec certify --external`, with verifiers in Python.

mod rows;

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::cli_support::{refuses, specdec, stdout, text};

/// The command that runs a file of Python; none on a machine without it.
fn python(file: &str) -> Option<String> {
    let found = Command::new("python3").arg("--version").output();
    found.is_ok_and(|run| run.status.success()).then(|| format!("python3 '{file}'"))
}

/// A verifier of `examples/external/`.
fn example(name: &str) -> Option<String> {
    python(&format!("{}/examples/external/{name}.py", env!("CARGO_MANIFEST_DIR")))
}

/// A verifier that answers with this expression of `line`, the n-th line that it reads.
fn script(folder: &tempfile::TempDir, body: &str) -> Option<String> {
    let file = folder.path().join("verifier.py");
    let lines =
        format!("import json, sys, time\nfor n, line in enumerate(sys.stdin):\n    {body}\n");
    fs::write(&file, lines).unwrap();
    python(file.to_str().unwrap())
}

#[test]
fn the_documented_verifier_is_enumerated_and_exact() {
    let Some(command) = example("verifier") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("certificate.json");
    let args = ["certify", "--external", &command, "--json", file.to_str().unwrap()];
    let table = stdout(&args);
    let verdict =
        "\nexact: the joint distribution of K + 1 tokens is the target's to 1.0e-12 in 50 cases, ";
    assert!(table.contains(verdict), "{table}");
    let json: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!((&json["verdict"], &json["command"]), (&"exact".into(), &command.as_str().into()));
    assert!(json["rounds"].as_u64().unwrap() > 3000 && json["git_commit"].is_string());
    let smaller = stdout(&["certify", "--external", &command, "--vocab", "2", "-k", "1"]);
    assert!(smaller.contains(" by rejection sampling; vocabulary 2, K = 1)"), "{smaller}");
}

#[test]
fn a_wrong_verifier_is_sampled_refuted_and_named() {
    let Some(command) = example("wrong") else { return };
    let run = specdec(&["certify", "--external", &command, "--detect", "0.03"]).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    let stderr = text(&run.stderr);
    assert!(
        stderr.starts_with("error: wrong: the joint distribution is refuted at level 0.001"),
        "{stderr}"
    );
    let table = text(&run.stdout);
    assert!(table.contains("\nlikely bug: correction_from_p: "), "{table}");
}

/// The documentation shows the tested verifier and every message.
#[test]
fn the_protocol_is_documented() {
    let doc = include_str!("../../docs/external.md");
    assert!(doc.contains(include_str!("../../examples/external/verifier.py").trim_end()));
    for message in ["verify", "choose", "chosen", "uniform", "tokens"] {
        assert!(doc.contains(&format!("{{\"{message}\":")), "{message} is not documented");
    }
}

/// A scheduler that answers with this expression of `drafts`, those of the round to be decided.
fn scheduler(folder: &tempfile::TempDir, lengths: &str) -> Option<String> {
    let body = format!(
        "rounds = json.loads(line)['schedule']; drafts = rounds[-1]; \
         print(json.dumps({{'lengths': {lengths}}}), flush=True)"
    );
    script(folder, &body)
}

#[test]
fn the_documented_scheduler_is_exact() {
    let Some(command) = example("scheduler") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let args = ["certify", "--scheduler", &command, "--json", file.to_str().unwrap()];
    assert!(stdout(&args).starts_with("The scheduler is exact: "));
    let json: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!((&json["verdict"], &json["command"]), (&"exact".into(), &command.as_str().into()));
    assert!(json["lengths"].as_object().unwrap().len() > 4 && json["git_commit"].is_string());
    let doc = include_str!("../../docs/external.md");
    assert!(doc.contains(include_str!("../../examples/external/scheduler.py").trim_end()));
}

#[test]
fn schedulers_that_look_behind_the_cut_are_refuted() {
    let folder = tempfile::tempdir().unwrap();
    for (lengths, part) in [
        (
            "[0 if d[1]['estimate'] < 0.75 else 2 for d in drafts]",
            "error: The scheduler is wrong: ",
        ),
        ("[0 if d[0]['q'] < 0.5 else 2 for d in drafts]", "error: The scheduler is wrong: "),
        ("[2 * (d[0]['token'] == 0) for d in drafts]", "error: The scheduler is wrong: "),
        ("[3, 0]", "must return 2 numbers from 0 to 2"),
        ("'2'", "which is not {\"lengths\": [n, n]}"),
    ] {
        let Some(command) = scheduler(&folder, lengths) else { return };
        refused(&["certify", "--scheduler", &command], part);
    }
    refuses(&["certify", "--scheduler", ""], "--scheduler : no command, or a quote that is");
}

#[test]
fn protocol_violations_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (body, part) in [
        (
            "print('loading the model', flush=True)",
            "the program wrote \"loading the model\", which",
        ),
        (
            "print('{\"choose\": [NaN]}', flush=True)",
            "the program wrote \"{\\\"choose\\\": [NaN]}\"",
        ),
        ("print('{\"tokens\": [-1]}', flush=True)", "which is not {\"choose\": [weights]}, "),
        ("print('{\"tokens\": [7]}', flush=True)", "there is no token 7: tokens are 0 to 3"),
        ("print('{\"choose\": [1, -1]}', flush=True)", "choose by [1.0, -1.0]: weight 1 is neg"),
        ("print('{\"uniform\": 0}', flush=True)", "asked for 0 uniform numbers: allowed are 1 to"),
        ("sys.exit(3)", "the program ended (exit status: 3) where an answer was due"),
        ("sys.exit(0) if n else print('{\"tokens\": [0]}', flush=True)", "ended (exit status: 0)"),
        ("print('x' * 3000000, flush=True)", "xxx…\", which is not"),
        ("print(json.dumps({'tokens': [n % 4]}), flush=True)", "it returned [0] and then [1]"),
        (
            "print('{\"uniform\": 1}' if n > 1 else '{\"choose\": [1, 1]}' if n != 1 else \
          '{\"tokens\": [0]}', flush=True)",
            "it asked for uniform numbers where it asked to",
        ),
    ] {
        let Some(command) = script(&folder, body) else { return };
        refused(&["certify", "--external", &command], part);
    }
    let Some(command) = script(&folder, "time.sleep(60)") else { return };
    let slow = ["certify", "--external", &command, "--time-limit", "0.5"];
    refused(&slow, "the program did not answer within 0.5 s");
    let Some(command) = script(&folder, "raise ValueError('no GPU')") else { return };
    let run = specdec(&["certify", "--external", &command]).output().unwrap();
    let stderr = text(&run.stderr);
    assert!(stderr.contains("ValueError: no GPU\n"), "standard error passes through: {stderr}");
    assert!(stderr.contains("error: invalid: case independent, draft [0, 0, 0]: it failed: "));
}

/// Checks that the last line of standard error is one sentence that contains a part.
fn refused(args: &[&str], part: &str) {
    let run = specdec(args).output().unwrap();
    let stderr = text(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{args:?}: {stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: ") && last.contains(part), "{stderr:?} does not say {part:?}");
}

#[test]
fn commands_and_options_that_cannot_be_run_are_refused() {
    refuses(&["certify", "--external", "/nowhere/verifier"], "cannot start /nowhere/verifier");
    refuses(&["certify", "--external", ""], "--external : no command, or a quote that is");
    refuses(&["certify", "--external", "python3 'a"], "or a quote that is not closed");
    refuses(
        &["certify", "--external", "cat", "--vocab", "1"],
        "vocab is 1, but must be at least 2",
    );
    refuses(
        &["certify", "--external", "cat", "-k", "40"],
        "sequences are enumerated, at most 4096",
    );
    for (args, part) in [
        (&["--vocab", "3"][..], "--external <COMMAND>"),
        (&["--external", "cat", "--full"], "cannot be used with"),
        (&["--external", "cat", "--precision", "f16"], "allowed are f64 and f32"),
        (&["--external", "cat", "--time-limit", "0"], "allowed is a number of seconds from 0.01"),
    ] {
        let run = specdec(&[&["certify"], args].concat()).output().unwrap();
        assert!(text(&run.stderr).contains(part), "{}", text(&run.stderr));
        assert_eq!(run.status.code(), Some(2));
    }
    // What it echoes is not an answer.
    refused(&["certify", "--external", "cat"], "the program wrote \"{\\\"verify\\\":");
}
