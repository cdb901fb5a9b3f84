//! What requests to a server forbid, allow and prefer, and requests as real clients send them.

use serde_json::{Value, json};

use crate::cli_chat::model;
use crate::serve_support::{HttpResponse, TestServer, first_text};

const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";

/// Every client is answered, or refused by the name of the field.
#[test]
fn requests_of_real_clients_are_answered_or_refused_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let target = model(folder.path(), &[("chat_template.jinja", TEMPLATE)]);
    let server =
        TestServer::of(target.to_str().unwrap(), &["--plain", "--served-model-name", "MODEL"]);
    for line in include_str!("../../fixtures/clients.jsonl").lines() {
        let sent = serde_json::from_str::<Value>(line).unwrap();
        let response = server.post(sent["path"].as_str().unwrap(), &sent["body"]);
        let client = &sent["client"];
        match sent["refused"].as_str() {
            None => assert_eq!(response.status, 200, "{client}: {}", response.body),
            Some(part) => {
                assert_eq!(response.status, 400, "{client}: {}", response.body);
                assert!(response.error().contains(part), "{client}: {}", response.body);
            }
        }
    }
}

fn streamed(response: &HttpResponse) -> Vec<Value> {
    let events = response.body.lines().filter_map(|line| line.strip_prefix("data: "));
    events.filter_map(|event| serde_json::from_str(event).ok()).collect()
}

/// Catches: usage in the last chunk alone, or that of another moment; a last chunk without what
/// speculation did.
#[test]
fn every_chunk_has_the_usage_so_far_if_it_is_asked_for() {
    let server = TestServer::start(&["-k", "3"]);
    let ask = |options: Value| {
        let body = json!({"prompt": "ab", "max_tokens": 9, "seed": 1, "stream": true,
                          "return_token_ids": true, "stream_options": options});
        streamed(&server.post("/v1/completions", &body))
    };
    let chunks = ask(json!({"include_usage": true, "continuous_usage_stats": true}));
    let mut tokens = 0;
    for chunk in &chunks {
        tokens += chunk["choices"][0]["token_ids"].as_array().map_or(0, Vec::len);
        assert_eq!(chunk["usage"]["completion_tokens"], tokens, "{chunk}");
        assert_eq!(chunk["usage"]["prompt_tokens"], 2);
    }
    assert_eq!(tokens, 9);
    let last = chunks.last().unwrap();
    assert!(last["metrics"]["speculative_decoding"]["num_spec_steps"].as_u64() > Some(0), "{last}");
    for options in [json!({"include_usage": true}), json!({"continuous_usage_stats": true})] {
        let with = ask(options.clone()).iter().filter(|chunk| !chunk["usage"].is_null()).count();
        assert_eq!(with, usize::from(options["include_usage"] == true));
    }
}

/// Catches: a control that is read and not applied, or applied to drafts alone.
#[test]
fn controls_of_a_request_hold_with_drafts() {
    let server = TestServer::start(&["-k", "3"]);
    let text = |more: Value| {
        let mut fields = json!({"prompt": "ab", "max_tokens": 30, "seed": 3});
        for (key, value) in more.as_object().unwrap() {
            fields[key] = value.clone();
        }
        let found = server.complete(&fields);
        (first_text(&found), found["choices"][0]["finish_reason"].clone())
    };
    let (free, _) = text(json!({}));
    assert!("abcd".chars().all(|letter| free.contains(letter)), "{free}");
    let (some, _) = text(json!({"allowed_token_ids": [0, 2]}));
    assert!(some.len() == 30 && some.chars().all(|c| "ac".contains(c)), "{some}");
    let (none, _) = text(json!({"bad_words": ["ab", "c"]}));
    assert!(free.contains("ab") && !none.contains("ab") && !none.contains('c'), "{none}");
    let (most, _) = text(json!({"logit_bias": {"3": 100}}));
    assert_eq!(most, "d".repeat(30));
    let (cut, reason) = text(json!({"stop_token_ids": [2]}));
    assert_eq!((cut.as_str(), &reason), (free.split('c').next().unwrap(), &json!("stop")));
    let (kept, _) = text(json!({"stop_token_ids": [2], "include_stop_str_in_output": true}));
    assert_eq!(kept, cut.clone() + "c");
    let (whole, _) = text(json!({"stop": "c", "include_stop_str_in_output": true}));
    assert_eq!(whole, kept);
    let (later, _) = text(json!({"stop_token_ids": [2], "min_tokens": 12}));
    assert!(later.len() >= 12, "{later}");
    // A toy has no token that ends a text.
    let fields = json!({"prompt": "ab", "guided_regex": "a+"});
    let refused = server.post("/v1/completions", &fields);
    assert_eq!(refused.status, 400);
    assert!(refused.error().contains("has no token that ends a text"), "{}", refused.body);
}

/// Catches: a grammar that only some completions of a request, or some rounds, follow.
#[test]
fn completions_follow_the_grammar_of_their_request() {
    let server = TestServer::of("embedded-target", &["--draft", "embedded-draft", "--slots", "3"]);
    let texts = |more: Value| {
        let mut fields = json!({"prompt": "let x = ", "max_tokens": 60, "seed": 3, "n": 4});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let found = server.complete(&fields);
        let choices = found["choices"].as_array().unwrap();
        choices.iter().map(|own| own["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let schema = json!({"x-guidance": {"whitespace_flexible": false}, "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["a"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"schema": schema}});
    for text in texts(json!({"response_format": format})) {
        let value = serde_json::from_str::<Value>(&text).unwrap();
        assert!(value["a"].as_u64() <= Some(99), "{text}");
    }
    for text in texts(json!({"structured_outputs": {"choice": ["(yes", "no)"]}})) {
        assert!(["(yes", "no)"].contains(&&*text), "{text}");
    }
    for text in texts(json!({"guided_grammar": "start: \"<\" /[0-9]/ \">\""})) {
        assert!(text.len() == 3 && text.starts_with('<') && text.ends_with('>'), "{text}");
    }
}
