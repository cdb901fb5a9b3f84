//! Audits of servers: our own, right and wrong, and answers as others write them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

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

/// A file with a few prompts beside the texts.
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
    // The server tells what each round drafts and accepts.
    let rounds = &found["verdicts"][0]["rounds"];
    let [looked_at, e] = ["rounds", "log10_e"].map(|key| rounds[key].as_f64().unwrap());
    assert!(looked_at > 2000.0 && e < 3.0, "{rounds}");
    assert_eq!(found["planted"][0]["bug"], "correction_from_target", "{}", found["planted"]);
    for (mutant, bug) in [
        ("correction_from_p", "correction_from_target"),
        ("bonus_from_q", "bonus_from_last_q"),
        ("argmax_recorded_as_sampled", "greedy_draft_soft_q"),
    ] {
        let server = TestServer::start(&["--mutant", mutant]);
        let (refuted, found, stderr) = audit(&path(mutant), &server.url(), &options);
        assert!(refuted, "{mutant}: {stderr}");
        assert_eq!(found["verdicts"][0]["bug"], bug, "{mutant}");
    }
}

/// What a file has already is not asked for again; texts of other settings are refused.
#[test]
fn an_audit_goes_on_where_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("texts.jsonl").display().to_string();
    let server = TestServer::start(&[]);
    let options = ["--tokens", "800", "-n", "20"];
    let (refuted, whole, stderr) = audit(&file, &server.url(), &options);
    assert!(!refuted, "{stderr}");
    let texts = fs::read_to_string(&file).unwrap();
    assert_eq!((texts.lines().count(), server.meter("specdec_texts_total")), (40, 40.0));
    // The last line is torn, and nine are lost.
    let kept = texts.lines().take(30).collect::<Vec<_>>().join("\n") + "\n{\"prompt\": \"p";
    fs::write(&file, kept).unwrap();
    let (_, again, _) = audit(&file, &server.url(), &options);
    assert_eq!(server.meter("specdec_texts_total"), 50.0);
    assert_eq!(whole["verdicts"][0]["tokens"], again["verdicts"][0]["tokens"]);
    let (refuted, _, stderr) =
        audit(&file, &server.url(), &[&options[..], &["--temperature", "0.5"]].concat());
    assert!(refuted && stderr.contains("was drawn at T = 1, not T = 0.5"), "{stderr}");
    // A decoder of class P gives the texts of plain decoding.
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

/// A server that gives these answers, one to each connection, and tells what it was asked.
fn canned(answers: Vec<String>) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, requests) = channel();
    thread::spawn(move || {
        for answer in answers {
            let mut stream = listener.accept().unwrap().0;
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let begin = head.len();
                reader.read_line(&mut head).unwrap();
                let line = head[begin..].to_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let first = head.lines().next().unwrap().to_owned();
            let _ = asked.send(format!("{first}\n{}", text(&body)));
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (url, requests)
}

fn answer(status: u16, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// One text of one token from a server of each kind.
#[test]
fn servers_of_all_kinds_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let named = json!({"choices": [{"finish_reason": "length",
        "logprobs": {"tokens": ["token_id:2"]}}]});
    let models = json!({"data": [{"id": "m"}]}).to_string();
    for (api, answers, path, parts) in [
        (
            "sglang",
            vec![json!({"output_ids": [2], "meta_info": {"finish_reason": {"type": "length"}}})],
            "POST /generate",
            vec!["\"input_ids\":[0,1]", "\"max_new_tokens\":1", "\"top_k\":3"],
        ),
        (
            "llama_cpp",
            vec![json!({"tokens": [2], "stop_type": "limit"})],
            "POST /completion",
            vec!["\"prompt\":[0,1]", "\"n_predict\":1", "\"top_k\":3", "\"min_p\":0.0"],
        ),
        (
            "openai",
            vec![named],
            "POST /v1/completions",
            vec!["\"prompt\":[0,1]", "\"model\":\"m\""],
        ),
    ] {
        let file = folder.path().join(api).display().to_string();
        let models = (api == "openai").then(|| answer(200, &models));
        let answers = answers.iter().map(|body| answer(200, &body.to_string()));
        let (url, requests) = canned(models.into_iter().chain(answers).collect());
        let options = ["--api", api, "--tokens", "1", "-n", "1", "--limit", "1", "--top-k", "3"];
        let (_, _, stderr) = audit(&file, &url, &options);
        let kept = fs::read_to_string(&file).unwrap();
        assert!(kept.contains("\"output_ids\":[2]"), "{api}: {kept} {stderr}");
        let asked = requests.iter().last().unwrap();
        assert!(asked.starts_with(path), "{asked}");
        parts.iter().for_each(|part| assert!(asked.contains(part), "{api}: {asked}"));
    }
}

/// A server that is busy is asked again, one that refuses is not, and one that makes texts up is
/// not asked for any.
#[test]
fn servers_in_trouble() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, answers: Vec<String>, api: &str| {
        let (url, requests) = canned(answers);
        let file = folder.path().join(name).display().to_string();
        let options =
            ["--api", api, "--tokens", "1", "-n", "1", "--limit", "1", "--served-model", "m"];
        let (_, _, stderr) = audit(&file, &url, &options);
        (requests.try_iter().count(), stderr, fs::read_to_string(file).unwrap_or_default())
    };
    let good = answer(200, "{\"tokens\": [1]}");
    let busy = [answer(503, "loading"), answer(429, "full"), good.clone()].to_vec();
    let (asked, stderr, kept) = run("busy", busy, "llama_cpp");
    assert!(asked == 3 && kept.contains("[1]"), "{asked} {stderr}");
    let (asked, stderr, kept) =
        run("refusing", vec![answer(400, "no such thing"), good], "llama_cpp");
    assert!(asked == 1 && kept.is_empty() && stderr.contains("status 400"), "{asked} {stderr}");
    assert!(stderr.contains("no such thing"), "{stderr}");
    let (_, stderr, _) = run("odd", vec![answer(200, "<html>")], "llama_cpp");
    assert!(stderr.contains("its answer is not JSON"), "{stderr}");
    let (_, stderr, _) = run("empty", vec![answer(200, "{\"x\": 1}")], "llama_cpp");
    assert!(stderr.contains("it has no \"tokens\"") && stderr.contains("{\"x\":1}"), "{stderr}");
    let made_up = "{\"speculative_config\": {\"rejection_sample_method\": \"synthetic\"}}";
    let (asked, stderr, _) = run("made_up", vec![answer(200, made_up)], "vllm");
    assert!(asked == 1 && stderr.contains("accepts drafts at random"), "{asked} {stderr}");
}

#[test]
fn options_of_a_server_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("texts.jsonl").display().to_string();
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
