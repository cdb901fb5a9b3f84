//! Whom a server lets in, and what its connections cost.

use std::path::Path;

use serde_json::json;

use crate::cli_support::{refuses, specdec, text};
use crate::serve_support::{TestServer, request, toy_request};

/// Catches: a key is compared only as far as it was sent.
#[test]
fn a_key_keeps_others_out() {
    let server = TestServer::start(&["--api-key", "open sesame"]);
    let body = toy_request(1, 4).to_string();
    for (header, status) in [
        ("", 401),
        ("Authorization: Bearer open sesamE\r\n", 401),
        ("Authorization: Bearer open sesame and more\r\n", 401),
        ("Authorization: open sesame\r\n", 401),
        ("Authorization: Bearer open sesame\r\n", 200),
    ] {
        let response = server.call("POST", "/v1/completions", header, &body);
        assert_eq!(response.status, status, "{header}");
    }
    assert_eq!(server.get("/metrics").status, 401);
    assert_eq!(server.get("/health").status, 200);
}

/// The command line is invalid, for this reason.
fn invalid(args: &[&str], part: &str) {
    let run = specdec(&[&["serve"], args].concat()).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert!(text(&run.stderr).contains(part), "{}", text(&run.stderr));
}

/// The status of a request with these headers in place of its own host.
fn status(server: &TestServer, headers: &str) -> u16 {
    let own = request("POST", "/v1/completions", "", &toy_request(1, 4).to_string());
    server.answer(&own.replace("Host: localhost\r\n", headers)).status
}

/// A name that someone points at this machine (DNS rebinding) is refused, and so is a page from
/// elsewhere.
/// Catches: any `Host` or any `Origin` is allowed; the port counts; a name is compared by its end.
#[test]
fn requests_name_their_server() {
    let server = TestServer::start(&["--allow-host", "GPU.example", "--allow-host", "proxy"]);
    for (headers, expected) in [
        ("Host: localhost\r\n", 200),
        ("Host: LOCALHOST:8000\r\n", 200),
        ("Host: 127.0.0.1:1\r\n", 200),
        ("Host: [::1]:8000\r\n", 200),
        ("Host: 192.168.1.7\r\n", 200),
        ("Host: gpu.example:8000\r\n", 200),
        ("Host: proxy\r\n", 200),
        ("", 200),
        ("Host: evil.example\r\n", 403),
        ("Host: evil.gpu.example\r\n", 403),
        ("Host: localhost.evil.example\r\n", 403),
        ("Host: 127.0.0.1.evil.example\r\n", 403),
        ("Host: localhost\r\nHost: evil.example\r\n", 403),
        ("Host: \r\n", 403),
        ("Host: localhost\r\nOrigin: http://localhost:3000\r\n", 200),
        ("Host: localhost\r\nOrigin: http://127.0.0.1\r\n", 200),
        ("Host: 192.168.1.7:80\r\nOrigin: http://192.168.1.7\r\n", 200),
        ("Host: localhost\r\nOrigin: https://gpu.example\r\n", 200),
        ("Host: localhost\r\nOrigin: https://evil.example\r\n", 403),
        ("Host: localhost\r\nOrigin: https://192.168.1.7\r\n", 403),
        ("Host: localhost\r\nOrigin: null\r\n", 403),
    ] {
        assert_eq!(status(&server, headers), expected, "{headers}");
    }
    // No path is left out, and the refusal names the way out.
    for path in ["/health", "/metrics", "/v1/models", "/nowhere"] {
        let own = request("GET", path, "", "").replace("localhost", "evil.example");
        let response = server.answer(&own);
        assert_eq!(response.status, 403, "{path}");
        assert!(response.error().contains("--allow-host NAME"), "{}", response.body);
    }
    let absolute = request("GET", "http://evil.example/health", "", "");
    assert_eq!(server.answer(&absolute).status, 403);
    invalid(&["--allow-host", "http://gpu.example"], "without scheme and port");
}

/// A page can make a browser send a form or plain text without asking the server.
/// Catches: a body of any type is read.
#[test]
fn bodies_are_declared_as_json() {
    let server = TestServer::start(&[]);
    let own = request("POST", "/v1/completions", "", &toy_request(1, 4).to_string());
    for (kind, expected) in [
        ("Content-Type: application/json\r\n", 200),
        ("Content-Type: Application/JSON; charset=utf-8\r\n", 200),
        ("Content-Type: text/plain\r\n", 415),
        ("Content-Type: application/x-www-form-urlencoded\r\n", 415),
        ("Content-Type: application/jsonp\r\n", 415),
        ("", 415),
    ] {
        let response = server.answer(&own.replace("Content-Type: application/json\r\n", kind));
        assert_eq!(response.status, expected, "{kind}");
        assert!(expected == 200 || response.error().contains("allowed is application/json"));
    }
}

/// Catches: whoever reaches the machine may use a server that has no key.
#[test]
fn other_machines_need_a_key() {
    let wrong = |args: &[&str], part: &str| {
        refuses(&[&["serve", "--target", "no/such/model"], args].concat(), part);
    };
    for host in ["0.0.0.0", "::", "192.168.1.7", "::ffff:192.168.1.7"] {
        wrong(&["--host", host], "other machines may reach this address: set --api-key");
        wrong(&["--host", host, "--no-api-key"], "no/such/model");
        wrong(&["--host", host, "--api-key", "open sesame"], "no/such/model");
    }
    for host in ["127.0.0.2", "::1", "::ffff:127.0.0.1"] {
        wrong(&["--host", host], "no/such/model");
    }
    wrong(&["--api-key", ""], "--api-key (SPECDEC_API_KEY) is empty");
    invalid(&["--api-key", "a", "--no-api-key"], "cannot be used with");
}

/// Catches: `/v1/models` or a message has the path of the model.
#[test]
fn clients_see_no_paths() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/target");
    let folder = folder.to_str().unwrap();
    let server = TestServer::of(folder, &["--plain"]);
    assert_eq!(server.get("/v1/models").json()["data"][0]["id"], "target");
    let mut bodies = Vec::new();
    for fields in [
        json!({"prompt": [1_000_000]}),
        json!({"prompt": "a ".repeat(5000)}),
        json!({"prompt": "a", "max_tokens": 5000}),
        json!({"prompt": "a", "model": "other"}),
        json!({"prompt": "a", "model": "target", "seed": 1}),
    ] {
        bodies.push(server.post("/v1/completions", &fields).body);
    }
    assert!(bodies.iter().all(|body| body.contains("target") && !body.contains("models")));
    let named = TestServer::of(folder, &["--plain", "--served-model-name", "a/b"]);
    assert_eq!(named.get("/v1/models").json()["data"][0]["id"], "a/b");
}

/// Catches: connections that send nothing use up all descriptors, or keep the server from ending.
#[cfg(unix)]
#[test]
fn silent_connections_lock_nobody_out() {
    let server = TestServer::with_descriptors(64, &[]);
    let silent = (0..100).map(|_| server.send(b"")).collect::<Vec<_>>();
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.complete(&toy_request(1, 4))["usage"]["completion_tokens"], 4);
    server.signal("-TERM");
    assert!(server.end().success());
    drop(silent);
}
