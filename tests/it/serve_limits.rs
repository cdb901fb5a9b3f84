//! What a server refuses, and what it survives.

use std::io::Read;
use std::net::{Shutdown, TcpListener};

use rand::{Rng, RngExt};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde_json::{Value, json};

use crate::cli_support::refuses;
use crate::serve_support::{TestServer, first_text, request, toy_request};

/// Catches: a body may have any length.
#[test]
fn wrong_requests_get_one_sentence() {
    let server = TestServer::start(&["--max-tokens", "64", "--max-body-kib", "4"]);
    let long = format!("{{\"prompt\": \"{}\"}}", "a".repeat(5000));
    for (body, status, part) in [
        ("", 400, "the body is not JSON"),
        ("[]", 400, "no JSON object"),
        ("{\"prompt\": \"ab\"", 400, "the body is not JSON"),
        ("{}", 400, "\"prompt\" is null: allowed is a string"),
        ("{\"prompt\": 7}", 400, "\"prompt\" is 7: allowed is a string"),
        ("{\"prompt\": [[0], 3]}", 400, "allowed is a string"),
        ("{\"prompt\": [9]}", 400, "token 9"),
        ("{\"prompt\": \"xyz\"}", 400, ""),
        ("{\"prompt\": \"ab\", \"temprature\": 1}", 400, "\"temprature\" is not known here"),
        ("{\"prompt\": \"ab\", \"temperature\": -1}", 400, "temperature"),
        ("{\"prompt\": \"ab\", \"temperature\": \"hot\"}", 400, "allowed is a number"),
        ("{\"prompt\": \"ab\", \"top_p\": 1.5}", 400, "top_p"),
        ("{\"prompt\": \"ab\", \"max_tokens\": 65}", 400, "allowed is a whole number from 0 to 64"),
        ("{\"prompt\": \"ab\", \"repetition_penalty\": 1e-40}", 400, "from 0.001 to 1000"),
        ("{\"prompt\": \"ab\", \"presence_penalty\": -1e300}", 400, "from -1000 to 1000"),
        ("{\"prompt\": \"ab\", \"frequency_penalty\": 1e39}", 400, "from -1000 to 1000"),
        ("{\"prompt\": \"ab\", \"n\": 0}", 400, "allowed is a whole number from 1 to 128"),
        ("{\"prompt\": \"ab\", \"n\": 65}", 400, "65 completions at once: 64 may wait"),
        ("{\"prompt\": \"ab\", \"logprobs\": 21}", 400, "allowed is a whole number from 0 to 20"),
        ("{\"prompt\": \"ab\", \"stop\": [\"\"]}", 400, "\"stop\""),
        ("{\"prompt\": \"ab\", \"stream\": 1}", 400, "allowed is true or false"),
        ("{\"prompt\": \"ab\", \"stream_options\": {\"x\": 1}}", 400, "include_usage"),
        ("{\"prompt\": \"ab\", \"logit_bias\": {\"1\": 200}}", 400, "from -100 to 100"),
        ("{\"prompt\": \"ab\", \"logit_bias\": {\"x\": 2}}", 400, "\"x\": 2 is not allowed"),
        ("{\"prompt\": \"ab\", \"stop_token_ids\": [9]}", 400, "9 is no token"),
        ("{\"prompt\": \"ab\", \"min_tokens\": 20}", 400, "more than \"max_tokens\""),
        ("{\"prompt\": \"ab\", \"guided_json\": \"{\"}", 400, "grammar json_schema"),
        ("{\"prompt\": \"ab\", \"response_format\": {}}", 400, "json_object"),
        ("{\"prompt\": \"ab\", \"model\": \"gpt\"}", 404, "its name is toy:mixed"),
        (&long, 413, "longer than 4096 bytes"),
    ] {
        let response = server.call("POST", "/v1/completions", "", body);
        assert_eq!(response.status, status, "{body}: {}", response.body);
        assert!(response.error().contains(part), "{body}: {}", response.body);
    }
    let chat = json!({"messages": [{"role": "user", "content": "ab"}]});
    let response = server.post("/v1/chat/completions", &chat);
    assert!(
        response.status == 400 && response.error().contains("chat template"),
        "{}",
        response.body
    );
    for (messages, part) in [
        (json!([]), "\"messages\" is"),
        (json!("ab"), "\"messages\" is"),
        (
            json!([{"role": "user", "content": [{"type": "image_url"}]}]),
            "\"messages\", number 1: a part of \"content\" is not of the type \"text\"",
        ),
        (
            json!([{"role": "user<|im_end|>", "content": "a"}]),
            "number 1: \"role\" = \"user<|im_end|>\": allowed are letters, digits and _",
        ),
    ] {
        let response = server.post("/v1/chat/completions", &json!({"messages": messages}));
        assert!(response.error().contains(part), "{}", response.body);
    }
    assert_eq!(server.get("/v1/completions").status, 405);
    assert_eq!(server.get("/v2").status, 404);
    assert_eq!(first_text(&server.complete(&toy_request(1, 8))).len(), 8);
}

/// Its stream would begin with status 200.
#[test]
fn a_stream_that_fails_at_once_has_a_status() {
    let server = TestServer::start(&[]);
    // The engine refuses the token, not the connection.
    let response = server.post("/v1/completions", &json!({"prompt": [9], "stream": true}));
    assert_eq!(response.status, 400, "{}", response.body);
    assert!(response.head.contains("application/json"), "{}", response.head);
    assert!(response.error().contains("token 9"), "{}", response.body);
}

/// Catches: a completion is cut where the context ends, although its client asked for more.
#[test]
fn a_completion_longer_than_the_context_is_refused() {
    let server = TestServer::start(&[]);
    let response = server.post("/v1/completions", &toy_request(1, 1023));
    assert_eq!(response.status, 400, "{}", response.body);
    let why = "\"max_tokens\" is 1023: allowed are up to 1022, because toy:mixed has room for 1024 \
               and the prompt has 2";
    assert_eq!(response.error(), why);
    assert_eq!(first_text(&server.complete(&toy_request(1, 1022))).len(), 1022);
    // Without max_tokens, there is nothing to refuse.
    let rest = server.complete(&json!({"prompt": "a".repeat(1020)}));
    assert_eq!(first_text(&rest).len(), 4);
    let response = server.post("/v1/completions", &json!({"prompt": "a".repeat(1024)}));
    assert_eq!(response.status, 400, "{}", response.body);
}

/// Catches: penalties that are allowed spoil the logits of a model.
#[test]
fn the_largest_penalties_leave_a_distribution() {
    let server = TestServer::of("embedded-target", &[]);
    for (key, extremes) in [
        ("repetition_penalty", [0.001, 1000.0]),
        ("presence_penalty", [-1000.0, 1000.0]),
        ("frequency_penalty", [-1000.0, 1000.0]),
    ] {
        for extreme in extremes {
            let mut fields = toy_request(1, 40);
            (fields[key], fields["ignore_eos"]) = (extreme.into(), true.into());
            assert_eq!(server.complete(&fields)["usage"]["completion_tokens"], 40, "{fields}");
        }
    }
}

/// It is the client's to avoid, and the message does not say where the model's files lie.
/// Catches: a missing template is the server's fault.
#[test]
fn a_chat_without_a_template_is_a_wrong_request() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("models/target");
    let server = TestServer::of(folder.to_str().unwrap(), &["--slots", "1"]);
    let chat = json!({"messages": [{"role": "user", "content": "ab"}]});
    let response = server.post("/v1/chat/completions", &chat);
    assert!(response.status == 400, "{}", response.body);
    assert!(response.error().starts_with("there is no chat template"), "{}", response.body);
}

/// Catches: a completion is generated although its client has gone.
#[test]
fn a_completion_ends_with_its_client() {
    let server = TestServer::of("embedded-target", &["--slots", "1"]);
    let mut long = toy_request(1, 1000);
    (long["ignore_eos"], long["stream"], long["n"]) = (true.into(), true.into(), 60.into());
    let mut stream =
        server.send(request("POST", "/v1/completions", "", &long.to_string()).as_bytes());
    assert!(stream.read(&mut [0; 64]).unwrap() > 0);
    drop(stream);
    server.wait_until_idle();
    let made = server.meter("specdec_generation_tokens_total");
    // The others would take a minute.
    assert!(made < 30_000.0, "{made}");
    assert!(!first_text(&server.complete(&toy_request(2, 4))).is_empty());
}

/// A completion that takes longer than the limit ends with an error, and leaves its slot.
/// Catches: a completion may take any time.
#[test]
fn a_late_completion_ends() {
    let server = TestServer::start(&["--time-limit", "0"]);
    let response = server.post("/v1/completions", &toy_request(1, 4));
    assert_eq!(response.status, 504, "{}", response.body);
    server.wait_until_idle();
    // Eight completions of a thousand tokens each take longer than a second together.
    let server = TestServer::of("embedded-target", &["--slots", "8", "--time-limit", "1"]);
    let mut long = toy_request(1, 1000);
    (long["ignore_eos"], long["n"]) = (true.into(), 8.into());
    let response = server.post("/v1/completions", &long);
    assert_eq!(response.status, 504, "{}", response.body);
    server.wait_until_idle();
    assert!(server.meter("specdec_generation_tokens_total") > 0.0);
}

/// Clients that disconnect leave no completion behind that is still generated.
#[test]
fn dropped_connections_leave_nothing() {
    let server = TestServer::start(&["--slots", "3", "--queue", "300"]);
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for number in 0..200 {
        let mut fields = toy_request(number, 1000);
        fields["stream"] = rng.random::<bool>().into();
        let whole = request("POST", "/v1/completions", "", &fields.to_string());
        // Some disconnect in the middle of their request, some during the response.
        let sent =
            if rng.random::<bool>() { whole.len() } else { rng.random_range(0..whole.len()) };
        let mut stream = server.send(&whole.as_bytes()[..sent]);
        if sent == whole.len() && rng.random::<bool>() {
            stream.set_read_timeout(Some(std::time::Duration::from_millis(5))).unwrap();
            let _ = stream.read(&mut [0; 256]);
        }
        let _ = stream.shutdown(Shutdown::Both);
    }
    server.wait_until_idle();
    let expected = first_text(&server.complete(&toy_request(7, 30)));
    assert_eq!(first_text(&server.complete(&toy_request(7, 30))), expected);
}

/// A body that is nearly a request.
fn spoilt(rng: &mut impl Rng) -> String {
    const KEYS: [&str; 18] = [
        "prompt",
        "max_tokens",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "n",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "echo",
        "logprobs",
        "prompt_logprobs",
        "ignore_eos",
        "return_token_ids",
        "repetition_penalty",
        "presence_penalty",
    ];
    let value = |rng: &mut dyn Rng| match rng.random_range(0..12) {
        0 => Value::Null,
        1 => rng.random::<bool>().into(),
        2 => rng.random::<i64>().into(),
        3 => rng.random_range(-2..12).into(),
        4 => (rng.random::<f64>() * 3.0 - 1.0).into(),
        5 => json!(["a", 1, [2]]),
        6 => json!({"include_usage": true}),
        7 => "\u{0}\u{202e}é😀".into(),
        8 => json!([0, 1, 2]),
        9 => f64::from_bits(rng.random()).into(),
        _ => "ab".into(),
    };
    let mut fields = json!({"prompt": "ab", "max_tokens": rng.random_range(0..6)});
    for _ in 0..rng.random_range(0..5) {
        fields[KEYS[rng.random_range(0..KEYS.len())]] = value(rng);
    }
    let mut text = fields.to_string().into_bytes();
    if rng.random_range(0..4) == 0 {
        let at = rng.random_range(0..text.len());
        text[at] = rng.random();
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Requests that are nearly right get a response of a few kinds, and the server still works.
/// `SPECDEC_FUZZED_REQUESTS` sets their number.
#[test]
fn spoilt_requests_are_answered() {
    let server = TestServer::start(&["--queue", "256"]);
    let count = std::env::var("SPECDEC_FUZZED_REQUESTS").ok().and_then(|n| n.parse().ok());
    let mut rng = ChaCha8Rng::seed_from_u64(99);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..count.unwrap_or(600) {
        let body = spoilt(&mut rng);
        let path =
            if rng.random_range(0..5) == 0 { "/v1/chat/completions" } else { "/v1/completions" };
        let response = server.call("POST", path, "", &body);
        match response.status {
            200 => good += 1,
            400 | 404 => bad += 1,
            status => panic!("{body}: {status} {}", response.body),
        }
    }
    assert!(good > 50 && bad > 50, "{good} {bad}");
    server.wait_until_idle();
    assert_eq!(first_text(&server.complete(&toy_request(1, 8))).len(), 8);
}

#[test]
fn options_are_checked_before_a_model_is_loaded() {
    let wrong = |args: &[&str], part: &str| {
        refuses(&[&["serve", "--target", "no/such/model"], args].concat(), part);
    };
    wrong(&["--slots", "0"], "--slots is out of range");
    wrong(&["--queue", "0"], "--queue is out of range");
    wrong(&["--max-body-kib", "0"], "--max-body-kib is out of range");
    wrong(&["--verifier", "no"], "verifier");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let args = ["serve", "--target", "toy:mixed", "--port", &port];
    refuses(&args, "cannot listen at 127.0.0.1");
}
