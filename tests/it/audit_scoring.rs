//! Audits whose distributions come from a server instead of a target that is loaded here.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli_support::{refuses, specdec, text};
use crate::serve_support::TestServer;

/// The verdict on the first sampling setting, whether the audit failed, and its messages.
fn audit(file: &str, args: &[&str]) -> (Value, bool, String) {
    let run = specdec(&[&["audit", file, "--json"], args].concat()).output().unwrap();
    let found = serde_json::from_slice::<Value>(&run.stdout).unwrap_or_default();
    (found["verdicts"][0].clone(), !run.status.success(), text(&run.stderr))
}

/// Completions of a server in a file of this folder, sampled with these settings.
fn completions(folder: &Path, server: &TestServer, tokens: &str, settings: &[&str]) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    let (file, prompts) =
        (path(&format!("completions{}", settings.join(""))), path("prompts.jsonl"));
    let line =
        |i: usize| format!("{{\"id\": \"p{i}\", \"prompt\": \"{}\"}}\n", &"abcdab"[i..i + 2]);
    fs::write(&prompts, (0..4).map(line).collect::<String>()).unwrap();
    let url = server.url();
    let own = ["--url", &url, "--target", "toy:mixed", "--prompts", &prompts];
    let size = ["--tokens", tokens, "-n", "40"];
    audit(&file, &[&own[..], &size, settings].concat());
    assert!(fs::read_to_string(&file).unwrap().lines().count() > 1);
    file
}

/// A server without speculation that reports this many log-probabilities.
fn scoring(most: &str) -> TestServer {
    TestServer::start(&["--plain", "--max-logprobs", most])
}

/// A number of a bet or verdict.
fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap()
}

/// Checks that two verdicts are the same, with bets that differ by less than `most`.
fn assert_same(own: &Value, reported: &Value, most: f64) {
    for key in ["texts", "tokens", "impossible", "ties", "refuted", "bug"] {
        assert_eq!(own[key], reported[key], "{key}: {reported}");
    }
    assert!(
        (number(own, "log10_e") - number(reported, "log10_e")).abs() < most,
        "{own} {reported}"
    );
    let others = own["bets"].as_array().unwrap();
    for bet in reported["bets"].as_array().unwrap() {
        let other = others.iter().find(|other| other["bug"] == bet["bug"]).unwrap();
        for key in ["log10_e", "tv"] {
            assert!((number(bet, key) - number(other, key)).abs() < most, "{bet} {other}");
        }
    }
}

/// Log-probabilities are sent with 24 bits, so the logarithm of a bet on a token is off by about
/// 1e-7, and that of a thousand tokens by at most 1e-4.
const ROUNDED: f64 = 1e-3;
/// Where p = q, which happens in toy models, p − q is this rounding alone. Distributions that are
/// computed from it differ.
const WHERE_P_IS_Q: f64 = 0.1;

#[test]
fn a_server_reports_the_distributions_of_its_model() {
    let folder = tempfile::tempdir().unwrap();
    let (server, scorer) = (TestServer::start(&[]), scoring("-1"));
    let url = scorer.url();
    let greedy = &["--temperature", "0"][..];
    for settings in [
        &[][..],
        &["--temperature", "0.7", "--top-p", "0.83"],
        &["--temperature", "1.3", "--top-k", "3", "--presence-penalty", "0.4"],
        greedy,
    ] {
        let file = completions(folder.path(), &server, "800", settings);
        // At temperature 0, each of the four prompts counts once.
        let tokens = if settings == greedy { 160.0 } else { 800.0 };
        for (draft, most) in [(&[][..], ROUNDED), (&["--draft", "toy:mixed"], WHERE_P_IS_Q)] {
            let (own, _, _) = audit(&file, &[&["--target", "toy:mixed"], draft].concat());
            let (reported, failed, said) = audit(&file, &[&["--target-url", &url], draft].concat());
            assert!(!failed && number(&reported, "tokens") == tokens, "{said}");
            assert_eq!(
                own["bets"].as_array().map(Vec::len),
                reported["bets"].as_array().map(Vec::len)
            );
            assert_same(&own, &reported, most);
        }
    }
    // One request for each token, and a first one if no draft model has the size of the vocabulary.
    assert_eq!(scorer.meter("specdec_texts_total"), 5124.0);
}

/// No model is loaded here: the scoring server tokenizes the prompts.
#[test]
fn known_wrong_completions_are_refuted_by_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let scorer = scoring("-1");
    let url = scorer.url();
    let prompts = folder.path().join("prompts.jsonl").display().to_string();
    fs::write(&prompts, "{\"id\": \"p\", \"prompt\": \"abca\"}\n").unwrap();
    let run = |server: &TestServer, name: &str, tokens: &str, more: &[&str]| {
        let file = folder.path().join(name).display().to_string();
        let own = ["--url", &server.url(), "--target-url", &url, "--prompts", &prompts];
        let size = ["--tokens", tokens, "-n", "40", "-k", "4"];
        let found = audit(&file, &[&own[..], &size, more].concat());
        (found, fs::read_to_string(file).unwrap())
    };
    let ((found, refuted, stderr), gathered) = run(&TestServer::start(&[]), "right", "800", &[]);
    assert!(!refuted && found["refuted"] == false, "{stderr}");
    assert!(gathered.starts_with("{\"prompt\":\"p\",\"prompt_ids\":[0,1,2,0],"), "{gathered}");
    let mutant = TestServer::start(&["--mutant", "greedy_draft_soft_q"]);
    let ((found, refuted, stderr), _) = run(&mutant, "wrong", "6000", &["--draft", "toy:mixed"]);
    assert!(refuted && stderr.contains("not drawn from the target's distribution"), "{stderr}");
    assert_eq!(found["alike"][0], "greedy_draft_soft_q", "{found}");
}

/// Two log-probabilities of four suffice at top_k = 2 and at temperature 0, and nowhere else.
#[test]
fn partial_distributions_are_used_where_they_suffice() {
    let folder = tempfile::tempdir().unwrap();
    let (server, scorer) = (TestServer::start(&[]), scoring("2"));
    let url = scorer.url();
    let partial = ["--target-url", &url, "--logprobs", "2", "--vocab-size", "4"];
    for settings in [&["--top-k", "2"][..], &["--temperature", "0"]] {
        let file = completions(folder.path(), &server, "400", settings);
        let (own, _, _) = audit(&file, &["--target", "toy:mixed"]);
        let (reported, failed, stderr) = audit(&file, &partial);
        assert!(!failed, "{stderr}");
        assert_same(&own, &reported, ROUNDED);
        let raw = json!("raw_target");
        assert!(!own["not_placed"].as_array().unwrap().contains(&raw));
        assert!(reported["not_placed"].as_array().unwrap().contains(&raw), "{reported}");
    }
    let file = completions(folder.path(), &server, "400", &["--top-k", "3"]);
    let part = "a top_k from 1 to 2, and no penalties";
    refuses(&[&["audit", &file], &partial[..]].concat(), part);
    // The server does not report more.
    refuses(&["audit", &file, "--target-url", &url], "do with --max-logprobs -1");
    refuses(&["audit", &file, "--target-url", &url, "--vocab-size", "4"], "from 0 to 2");
    // Completions that cannot be drawn with top_k = 1.
    let own = fs::read_to_string(&file).unwrap();
    fs::write(&file, own.replace("\"top_k\":3", "\"top_k\":1")).unwrap();
    let (found, refuted, _) = audit(&file, &partial);
    assert!(refuted && number(&found, "impossible") > 50.0, "{found}");
}

#[test]
fn servers_that_score_are_named_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("completions.jsonl").display().to_string();
    let line = "{\"prompt_ids\": [0], \"output_ids\": [1, 9]}\n";
    fs::write(&file, line).unwrap();
    let scorer = scoring("-1");
    let url = scorer.url();
    let scored = ["audit", &file, "--target-url", &url];
    for (args, part) in [
        (&["--target", "toy:mixed"][..], "--target"),
        (&["--planted", "correction_from_p"], "--planted"),
        (&["--chat"], "--chat"),
    ] {
        let run = specdec(&[&scored[..], args].concat()).output().unwrap();
        let said = text(&run.stderr);
        assert!(!run.status.success() && said.contains("cannot be used with"), "{said}");
        assert!(said.contains(part), "{said}");
    }
    let refused = |args: &[&str], part: &str| refuses(&[&scored[..], args].concat(), part);
    refused(&[], &format!("token 9 lies outside the vocabulary of {url} (4)"));
    refused(&["--draft", "toy:close"], "vocabulary");
    refused(&["--logprobs", "0"], "--logprobs is out of range: allowed is a whole number >= 1");
    refused(&["--top-k", "2"], "it is for --url");
    refuses(&["audit", &file, "--target-url", "localhost"], "allowed is an address like");
    #[cfg(not(feature = "https"))]
    refuses(&["audit", &file, "--target-url", "https://localhost"], "built with --features https");
    let penalised = "{\"prompt_ids\": [0], \"output_ids\": [1], \
        \"sampling\": {\"repetition_penalty\": 1.2}}\n";
    fs::write(&file, penalised).unwrap();
    refused(&[], "repetition_penalty divides logits");
}

/// The whole vocabulary can be requested without its size, if the server allows that.
#[test]
fn whole_distributions_are_served() {
    let (whole, part) = (scoring("-1"), scoring("3"));
    let asked = json!({"prompt": [0, 1], "max_tokens": 1, "logprobs": -1, "prompt_logprobs": -1,
        "return_tokens_as_token_ids": true});
    let choice = &whole.complete(&asked)["choices"][0];
    assert_eq!(choice["logprobs"]["top_logprobs"][0].as_object().unwrap().len(), 4);
    assert_eq!(choice["prompt_logprobs"][1].as_object().unwrap().len(), 4);
    let refused = part.post("/v1/completions", &asked);
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("allowed is a whole number from 0 to 3"), "{}", refused.body);
    let refused = specdec(&["serve", "--max-logprobs", "-2"]).output().unwrap();
    assert!(text(&refused.stderr).contains("allowed is a whole number >= -1"));
}
