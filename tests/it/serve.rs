//! How a server responds.

mod controls;
mod latencies;

#[cfg(unix)]
use std::io::{Read, Write};

use serde_json::{Value, json};
use specdec::bugs::of_any_models;

use crate::cli_support::{refuses, stdout};
use crate::serve_support::{TestServer, first_text, toy_request};

/// Catches: every round reports its whole draft as accepted.
#[test]
fn a_completion_equals_that_of_generate() {
    let server = TestServer::start(&["-k", "3"]);
    let options = ["--temperature", "0.8", "--seed", "5", "-n", "24", "-k", "3"];
    let own = [&["generate", "ab", "--target", "toy:mixed"], &options[..]].concat();
    let response = server.complete(&toy_request(5, 24));
    assert_eq!(first_text(&response), stdout(&own).trim_end());
    assert_eq!(response["choices"][0]["finish_reason"], "length");
    assert_eq!(
        response["usage"],
        json!({
            "prompt_tokens": 2, "completion_tokens": 24, "total_tokens": 26,
        })
    );
    // Rounds account for the tokens, but for those after the end of the completion.
    let rounds = &response["metrics"]["speculative_decoding"];
    let accepted = rounds["per_step_accepted"].as_array().unwrap();
    let sum = accepted.iter().map(|count| 1 + count.as_u64().unwrap()).sum::<u64>();
    assert!((24..28).contains(&sum), "{rounds}");
    let drafted = rounds["per_step_drafted"].as_array().unwrap().iter();
    assert_eq!(rounds["num_spec_steps"], drafted.filter(|count| **count != 0).count());
    // Without a seed, the one in the response gives the completion again.
    let free = server.complete(&json!({"prompt": "ab", "max_tokens": 24, "temperature": 0.8}));
    let seed = free["seed"].as_u64().unwrap();
    assert_eq!(first_text(&server.complete(&toy_request(seed, 24))), first_text(&free));
}

/// Catches: a stream has no usage, or ends with its first completion.
#[test]
fn a_stream_has_the_same_text_and_counts() {
    let server = TestServer::start(&[]);
    for n in [1, 3] {
        let mut fields = toy_request(9, 20);
        fields["n"] = n.into();
        fields["return_token_ids"] = true.into();
        let whole = server.complete(&fields);
        fields["stream"] = true.into();
        fields["stream_options"] = json!({"include_usage": true});
        let response = server.post("/v1/completions", &fields);
        assert!(response.head.contains("text/event-stream"), "{}", response.head);
        let mut events = response.events();
        assert_eq!(events.pop().unwrap()["usage"], whole["usage"]);
        let (mut texts, mut tokens) = (vec![String::new(); n], vec![Vec::new(); n]);
        for event in &events {
            let choice = &event["choices"][0];
            let index = choice["index"].as_u64().unwrap() as usize;
            texts[index] += choice["text"].as_str().unwrap();
            tokens[index].extend(choice["token_ids"].as_array().unwrap().clone());
        }
        for (index, (text, tokens)) in texts.iter().zip(tokens).enumerate() {
            assert_eq!(whole["choices"][index]["text"], *text);
            assert_eq!(whole["choices"][index]["token_ids"], Value::Array(tokens));
        }
    }
}

/// Probabilities of a prompt and of a completion, raw and processed, against the model's.
#[test]
fn log_probabilities_are_those_of_the_model() {
    for (mode, temperature) in [("raw", "1"), ("processed", "0.5")] {
        let server = TestServer::start(&["--logprobs-mode", mode]);
        let response = server.complete(&json!({
            "prompt": [0, 1, 0], "max_tokens": 1, "temperature": 0.5, "seed": 1, "echo": true,
            "logprobs": 4, "prompt_logprobs": 4, "return_token_ids": true,
        }));
        let choice = &response["choices"][0];
        let logs = &choice["logprobs"];
        assert_eq!(logs["tokens"].as_array().unwrap().len(), 4);
        assert_eq!(logs["token_logprobs"][0], Value::Null);
        let inspected = stdout(&[
            "inspect",
            "aba",
            "--target",
            "toy:mixed",
            "--temperature",
            temperature,
            "--json",
        ]);
        let inspected = serde_json::from_str::<Value>(&inspected).unwrap();
        let expected = inspected["tokens"].as_array().unwrap().iter().map(|token| {
            let stages = token["probabilities"].as_array().unwrap();
            let last = stages.last().unwrap().as_f64().unwrap();
            (token["label"].as_str().unwrap().to_owned(), last)
        });
        for (name, p) in expected {
            let found = logs["top_logprobs"][3][&name].as_f64().unwrap();
            assert!((found.exp() - p).abs() < 1e-9, "{mode} {name}: {found} {p}");
        }
        // The row of the last token of the prompt is raw, at any temperature.
        let rows = choice["prompt_logprobs"].as_array().unwrap();
        let sum = rows[2].as_object().unwrap().values().map(|row| row["logprob"].as_f64().unwrap());
        assert!((sum.map(f64::exp).sum::<f64>() - 1.0).abs() < 1e-9, "{}", rows[2]);
        assert_eq!((rows.len(), &rows[0]), (3, &Value::Null));
    }
}

/// Logits of a model that is no toy have any sum, and few of its tokens are reported.
/// Catches: logits in the place of log-probabilities; the least probable tokens come first.
#[test]
fn the_most_probable_tokens_are_reported() {
    let server = TestServer::of("embedded-target", &["--max-logprobs", "-1"]);
    let row = |most: usize| {
        let fields = json!({"prompt": [5, 6, 7], "max_tokens": 1, "prompt_logprobs": most});
        let response = server.complete(&fields);
        let row = response["choices"][0]["prompt_logprobs"][2].as_object().unwrap();
        let found = row.iter().map(|(id, own)| (own["logprob"].as_f64().unwrap(), id.clone()));
        let mut found = found.collect::<Vec<_>>();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found
    };
    let all = row(4096);
    assert_eq!(all.len(), 4096);
    // The mass of logits is a sum of powers in f32.
    let sum = all.iter().map(|(log, _)| log.exp()).sum::<f64>();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    assert_eq!(row(3)[..3], all[..3]);
}

#[test]
fn completions_end_at_stop_strings_and_limits() {
    let server = TestServer::start(&[]);
    let free = first_text(&server.complete(&toy_request(2, 40)));
    let stop = &free[10..12];
    let mut fields = toy_request(2, 40);
    fields["stop"] = json!([stop, "zzz"]);
    let response = server.complete(&fields);
    assert_eq!(first_text(&response), free[..free.find(stop).unwrap()]);
    assert_eq!(response["choices"][0]["finish_reason"], "stop");
    let none = server.complete(&json!({"prompt": "ab", "max_tokens": 0, "echo": true}));
    assert_eq!(first_text(&none), "ab");
}

/// The model's end token ends a completion, unless it is to be ignored.
/// Catches: the end token is ignored.
#[test]
fn an_end_token_ends_a_completion() {
    let server = TestServer::of("embedded-target", &[]);
    let reasons = |ignored: bool| {
        let response = server.complete(&json!({
            "prompt": "# ", "max_tokens": 300, "n": 4, "seed": 1, "ignore_eos": ignored,
        }));
        let choices = response["choices"].as_array().unwrap();
        let ended = choices.iter().filter(|choice| choice["finish_reason"] == "stop").count();
        (ended, response["usage"]["completion_tokens"].as_u64().unwrap())
    };
    let (ended, tokens) = reasons(false);
    assert!(ended > 0 && tokens < 1200, "{ended} {tokens}");
    assert_eq!(reasons(true), (0, 1200));
}

/// The completions of a request are draws of their own, and the same draws each time.
/// Catches: all completions of a request have the same random numbers.
#[test]
fn completions_of_a_request_differ() {
    let server = TestServer::start(&[]);
    let mut fields = toy_request(3, 30);
    fields["n"] = 4.into();
    let texts = || {
        let response = server.complete(&fields);
        let choices = response["choices"].as_array().unwrap();
        let each = choices.iter().map(|choice| choice["text"].as_str().unwrap().to_owned());
        each.collect::<Vec<_>>()
    };
    let found = texts();
    assert_eq!(found.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{found:?}");
    assert_eq!(texts(), found);
}

/// Many completions at a time, on fewer slots, are those that each is by itself.
#[test]
fn completions_together_equal_those_alone() {
    let methods: [&[&str]; 3] = [&[], &["--verifier", "token_match"], &["--verifier", "gumbel"]];
    for method in methods {
        let server = TestServer::start(&[&["--slots", "7"], method].concat());
        let seeds = 0..32;
        let fields = |seed: u64| {
            let mut fields = toy_request(seed, 30);
            fields["stream"] = true.into();
            fields["temperature"] = if seed.is_multiple_of(4) { 0.0 } else { 0.9 }.into();
            fields
        };
        let text = |seed: u64| {
            let events = server.post("/v1/completions", &fields(seed)).events();
            events.iter().map(first_text).collect::<String>()
        };
        let alone = seeds.clone().map(text).collect::<Vec<_>>();
        let together = std::thread::scope(|scope| {
            let started = seeds.map(|seed| scope.spawn(move || text(seed)));
            let started = started.collect::<Vec<_>>();
            started.into_iter().map(|text| text.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(alone, together, "{method:?}");
        assert!(alone.iter().all(|text| text.len() == 30), "{alone:?}");
    }
}

/// Catches: a known-wrong method is served without its header.
#[test]
fn a_wrong_server_says_so() {
    let name = "accept_ratio_inverted";
    let server = TestServer::start(&["--mutant", name]);
    assert!(server.banner.contains("wrong on purpose") && server.banner.contains(name));
    for path in ["/health", "/v1/models", "/metrics", "/nowhere"] {
        let head = server.get(path).head;
        assert!(head.contains(&format!("x-specdec-mutant: {name}")), "{head}");
    }
    assert_eq!(server.get("/health").json()["mutant"], name);
    assert!(server.complete(&toy_request(1, 10))["choices"][0]["text"].is_string());
    let right = TestServer::start(&[]);
    assert!(right.banner.is_empty());
    assert!(!right.get("/health").head.contains("x-specdec-mutant"));
    refuses(&["serve", "--mutant", "accept_ratio", "--target", "toy:mixed"], "accept_ratio_inver");
}

/// Each known-wrong method can be served.
#[test]
fn known_wrong_methods_generate() {
    assert!(of_any_models().count() > 30);
    for (bug, _) in of_any_models().step_by(5) {
        let server = TestServer::start(&["--mutant", bug.name]);
        let text = first_text(&server.complete(&toy_request(1, 12)));
        assert_eq!(text.len(), 12, "{}", bug.name);
    }
}

#[cfg(unix)]
#[test]
fn a_server_ends_when_it_is_signalled() {
    for signal in ["-INT", "-TERM"] {
        let server = TestServer::start(&[]);
        assert_eq!(first_text(&server.complete(&toy_request(1, 10))).len(), 10);
        server.signal(signal);
        assert!(server.end().success(), "{signal}");
    }
}

/// A request that the signal comes into the middle of is refused. As long as it is open, others
/// learn that the server is ending.
/// Catches: a server that ends takes new requests, or answers no more connections.
#[cfg(unix)]
#[test]
fn an_ending_server_takes_no_new_request() {
    let server = TestServer::start(&[]);
    let body = toy_request(1, 10).to_string();
    let whole = crate::serve_support::request("POST", "/v1/completions", "", &body);
    let (begin, rest) = whole.split_at(whole.len() - 5);
    let mut stream = server.send(begin.as_bytes());
    // Connections are accepted in their order.
    assert_eq!(server.get("/health").status, 200);
    server.signal("-TERM");
    while server.get("/health").status != 503 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(server.post("/v1/completions", &toy_request(1, 10)).status, 503);
    stream.write_all(rest.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    assert!(server.end().success());
}
