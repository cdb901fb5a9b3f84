//! What a chat template may take: it is a program from outside.

use std::path::Path;
use std::time::{Duration, Instant};

#[cfg(feature = "serve")]
use serde_json::json;

use crate::cli_chat::model;
use crate::run_support::{fail, specdec};
#[cfg(feature = "serve")]
use crate::serve_support::TestServer;

/// Doubles a list of long strings thirty times, and then writes it.
const LARGE: &str = "{% set n = namespace(a='x' * 100000) %}{% for i in range(30) %}\
                     {% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a | tojson | length }}";

/// Compares lists of lists that hold each other twice: one step takes as long as 2^60.
const SLOW: &str = "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(60) %}\
                    {% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}\
                    {{ n.a == n.b }}";

/// A conversation with the embedded target and this template.
fn generated(folder: &Path, template: &str) -> std::process::Output {
    let model = model(folder, &[("chat_template.jinja", template)]);
    let target = model.to_str().unwrap();
    specdec(&["generate", "--target", target, "--plain", "-n", "2", "--chat", "x"])
        .output()
        .unwrap()
}

/// Catches: a template takes all memory, or minutes.
#[test]
fn memory_and_time_of_a_template_are_bounded() {
    for (template, part) in [
        (LARGE, "chat_template.jinja: the chat template fails: it takes more than 2 GiB of memory"),
        (SLOW, "chat_template.jinja: the chat template fails: it takes more than 10 s"),
        ("{{ raise_exception('not now') }}", "refuses the conversation: not now"),
        ("\n{% if %}", "the chat template fails in line 2"),
    ] {
        let (folder, begun) = (tempfile::tempdir().unwrap(), Instant::now());
        fail(generated(folder.path(), template), &[part]);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
}

/// What the program starts itself answers nothing but a request.
/// Catches: wrong input ends it in a panic.
#[test]
fn the_renderer_refuses_what_is_no_request() {
    let output = specdec(&["render-chat"]).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(!String::from_utf8(output.stderr).unwrap().contains("bug"));
}

/// Catches: while a template is rendered, other completions wait, or `/health` does; a client waits
/// longer than `--time-limit`.
#[cfg(feature = "serve")]
#[test]
fn a_server_does_not_wait_for_a_template() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), &[("chat_template.jinja", SLOW)]);
    let server = TestServer::of(model.to_str().unwrap(), &["--plain", "--time-limit", "5"]);
    let chat = json!({"messages": [{"role": "user", "content": "x"}]}).to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{chat}",
        chat.len()
    );
    let begun = Instant::now();
    let waiting = [(); 3].map(|()| server.send(head.as_bytes()));
    assert_eq!(server.get("/health").json()["engine"], "waiting");
    for _ in 0..5 {
        assert_eq!(server.get("/health").status, 200);
        server.complete(&json!({"prompt": "fn", "max_tokens": 2}));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    for mut stream in waiting {
        let mut response = String::new();
        std::io::Read::read_to_string(&mut stream, &mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 504"), "{response}");
    }
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}
