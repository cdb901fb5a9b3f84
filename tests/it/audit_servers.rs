//! Audits of our own server, right and wrong.

use std::fs;

use serde_json::{Value, json};

use crate::cli_support::{specdec, text};
use crate::serve_support::TestServer;

/// An audit of a server of the toy pair: whether it fails, its verdict, and what it said.
fn audit(file: &str, url: &str, args: &[&str]) -> (bool, Value, String) {
    let own = ["audit", file, "--url", url, "--target", "toy:mixed", "--prompts", &prompts(file)];
    let run = specdec(&[&own, args, &["--json"]].concat()).output().unwrap();
    let found = serde_json::from_slice::<Value>(&run.stdout).unwrap_or_default();
    (!run.status.success(), found, text(&run.stderr))
}

/// A file with a few prompts next to that of the completions.
fn prompts(file: &str) -> String {
    let path = format!("{file}.prompts.jsonl");
    let line =
        |i: usize| format!("{{\"id\": \"p{i}\", \"prompt\": \"{}\"}}\n", &"abcdab"[i..i + 2]);
    fs::write(&path, (0..4).map(line).collect::<String>()).unwrap();
    path
}

#[test]
fn right_servers_pass_and_wrong_ones_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let options = ["--draft", "toy:mixed", "--tokens", "12000", "-n", "40", "-k", "4"];
    let right = TestServer::start(&[]);
    let planted = ["--planted", "correction_from_p"];
    let (refuted, found, stderr) =
        audit(&path("right"), &right.url(), &[&options[..], &planted].concat());
    assert!(!refuted, "{stderr}");
    assert_eq!(found["verdicts"][0]["refuted"], false);
    // The server reports what each round drafts and accepts.
    let rounds = &found["verdicts"][0]["rounds"];
    let [looked_at, e] = ["rounds", "log10_e"].map(|key| rounds[key].as_f64().unwrap());
    assert!(looked_at > 2000.0 && e < 3.0, "{rounds}");
    assert_eq!(found["planted"][0]["alike"][0], "correction_from_p", "{}", found["planted"]);
    for bug in ["correction_from_p", "bonus_from_last_q", "greedy_draft_soft_q"] {
        let server = TestServer::start(&["--mutant", bug]);
        let (refuted, found, stderr) = audit(&path(bug), &server.url(), &options);
        assert!(refuted, "{bug}: {stderr}");
        assert_eq!(found["verdicts"][0]["alike"][0], bug);
    }
}

/// The completions of a server, scored by target and draft, forecast what its rounds accept.
/// Catches: log p or log q of another model; sequences without their log p.
#[test]
fn audited_completions_become_a_scored_tape() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (file, tape) = (path("c.jsonl"), path("c.tape.jsonl"));
    let server = TestServer::start(&["-k", "4"]);
    let options = ["--draft", "toy:mixed", "--tokens", "4000", "-n", "40", "-k", "4"];
    let (refuted, _, stderr) =
        audit(&file, &server.url(), &[&options[..], &["--tape", &tape]].concat());
    assert!(!refuted, "{stderr}");
    let read = specdec::tapes::recording::read_tape_file(tape.as_ref()).unwrap();
    assert!(read.sequences.iter().all(|sequence| sequence.log_p.is_some()));
    let cells = specdec::tapes::forecasting::forecast_cells(&read, &[], None);
    let forecast = crate::forecast_by_hand::rejection(&cells, 4).block_efficiency();
    let sequences = specdec::tapes::recording::read_external_sequences(file.as_ref()).unwrap();
    let steps = sequences.reports.iter().flat_map(|report| report.accepted.iter().flatten());
    let measured = 1.0 + steps.clone().sum::<usize>() as f64 / steps.count() as f64;
    // 4000 tokens: the standard error of the mean of 1500 rounds with a spread of about 1.5 is 0.04.
    assert!((forecast.value().unwrap() - measured).abs() < 0.16, "{forecast:?}, {measured}");
    let again = audit(&file, &server.url(), &[&options[..], &["--tape", &tape]].concat());
    assert!(again.0 && again.2.contains("exists already"), "{}", again.2);
}

/// Catches: half a tape stays behind where the target cannot draw a token.
#[test]
fn completions_that_the_target_cannot_draw_leave_no_tape() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (file, tape) = (path("c.jsonl"), path("c.tape.jsonl"));
    // With top_k = 1 the target draws one of them.
    let line = |token: u32| {
        json!({"prompt_ids": [0], "output_ids": [token], "sampling": {"top_k": 1}}).to_string()
    };
    fs::write(&file, [0, 1].map(|token| line(token) + "\n").concat()).unwrap();
    let run = specdec(&["audit", &file, "--target", "toy:mixed", "--tape", &tape]);
    let run = { run }.output().unwrap();
    let stderr = text(&run.stderr);
    assert!(stderr.contains("the target cannot draw token 0"), "{stderr}");
    assert!(!run.status.success() && !std::path::Path::new(&tape).exists());
}

/// Completions that a file has are not requested again; other sampling settings are refused.
#[test]
fn an_interrupted_audit_continues() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("completions.jsonl").display().to_string();
    let server = TestServer::start(&[]);
    let options = ["--tokens", "800", "-n", "20"];
    let (refuted, whole, stderr) = audit(&file, &server.url(), &options);
    assert!(!refuted, "{stderr}");
    let gathered = fs::read_to_string(&file).unwrap();
    assert_eq!((gathered.lines().count(), server.meter("specdec_texts_total")), (40, 40.0));
    // The last line is truncated, and nine are lost.
    let kept = gathered.lines().take(30).collect::<Vec<_>>().join("\n") + "\n{\"prompt\": \"p";
    fs::write(&file, kept).unwrap();
    let (_, again, _) = audit(&file, &server.url(), &options);
    assert_eq!(server.meter("specdec_texts_total"), 50.0);
    assert_eq!(whole["verdicts"][0]["tokens"], again["verdicts"][0]["tokens"]);
    let (refuted, _, stderr) =
        audit(&file, &server.url(), &[&options[..], &["--temperature", "0.5"]].concat());
    assert!(refuted && stderr.contains("was drawn at T = 1, not T = 0.5"), "{stderr}");
    // A decoder of class P gives the completions of plain decoding.
    let class_p = TestServer::start(&["--verifier", "gumbel"]);
    let plain = TestServer::start(&["--verifier", "gumbel", "--plain"]);
    let other = folder.path().join("p.jsonl").display().to_string();
    let floor = folder.path().join("plain.jsonl").display().to_string();
    let url = plain.url();
    let options = [&options[..], &["--plain", &floor, "--plain-url", &url]].concat();
    let (refuted, found, stderr) = audit(&other, &class_p.url(), &options);
    assert!(!refuted, "{stderr}");
    assert_eq!(found["seeds"], json!({"pairs": 40, "equal": 40, "first_difference": null}));
}

#[test]
fn options_of_a_server_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("completions.jsonl").display().to_string();
    for (args, part) in [
        (&["--concurrency", "0"][..], "--concurrency is out of range"),
        (&["--rate", "0"], "--rate is out of range"),
        (&["--tokens", "0"], "allowed is a whole number >= 1"),
    ] {
        let (refused, _, stderr) = audit(&file, "http://localhost:1", args);
        assert!(refused && stderr.contains(part), "{stderr}");
    }
    let (refused, _, stderr) = audit(&file, "localhost:1", &[]);
    assert!(refused && stderr.contains("allowed is an address like"), "{stderr}");
    fs::write(&file, "{\"prompt_ids\": [0], \"output_ids\": [1]}\n").unwrap();
    let run = specdec(&["audit", &file, "--target", "toy:mixed", "--top-k", "3"]).output().unwrap();
    assert!(text(&run.stderr).contains("it is for --url"), "{}", text(&run.stderr));
}
