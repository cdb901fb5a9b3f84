//! What a server reports of tokens and rounds, against what it generated.

use serde_json::{Value, json};

use crate::serve_support::{TestServer, first_text, request, toy_request};

fn counts(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect()
}

fn sum(value: &Value) -> u64 {
    counts(value).iter().sum()
}

/// What speculation did for a completion.
fn speculation(response: &Value) -> &Value {
    &response["metrics"]["speculative_decoding"]
}

/// vLLM's definitions: a step is a round with a draft.
/// Catches: rounds without a draft count as steps; positions are counted from 1; the acceptance rate
/// is over steps; the histogram has rounds without a draft, or begins at 1; prompts are not counted.
#[test]
fn steps_are_rounds_with_a_draft() {
    let server = TestServer::start(&["--drafter", "prompt_lookup", "-k", "3"]);
    let response = server.complete(&toy_request(1, 60));
    let rounds = speculation(&response);
    let [accepted, drafted] =
        ["accepted", "drafted"].map(|of| counts(&rounds[format!("per_step_{of}")]));
    let steps = drafted.iter().filter(|drafted| **drafted > 0).count();
    assert!(0 < steps && steps < drafted.len(), "{rounds}");
    assert_eq!(accepted.len(), drafted.len());
    // All rounds are in the lists, so that they add up to the tokens.
    assert_eq!(accepted.iter().map(|accepted| accepted + 1).sum::<u64>(), 60);
    assert_eq!(rounds["num_spec_steps"], steps);
    for (length, found) in counts(&rounds["acceptance_histogram"]).into_iter().enumerate() {
        let rounds = accepted.iter().zip(&drafted).filter(|(_, drafted)| **drafted > 0);
        let own = rounds.filter(|(accepted, _)| **accepted == length as u64);
        assert_eq!(found, own.count() as u64, "{length}");
    }
    let mean = 1.0 + accepted.iter().sum::<u64>() as f64 / steps as f64;
    assert_eq!(rounds["mean_acceptance_length"], mean);
    let all = [&accepted, &drafted].map(|counts| counts.iter().sum::<u64>() as f64);
    assert_eq!(rounds["draft_acceptance_rate"], all[0] / all[1]);
    assert_eq!(server.meter("specdec_spec_decode_num_drafts_total"), steps as f64);
    assert_eq!(server.meter("specdec_prompt_tokens_total"), 2.0);
    for position in 0..4 {
        let name = "specdec_spec_decode_num_accepted_tokens_per_pos_total";
        let found = server.meter(&format!("{name}{{position=\"{position}\"}}"));
        let kept = accepted.iter().filter(|accepted| **accepted > position).count();
        assert_eq!(found, kept as f64, "{position}");
    }
    server.wait_until_idle();
    let alone = |name: &str| server.meter(&format!("specdec_{name}_total{{requests=\"1\"}}"));
    assert_eq!(alone("rounds"), accepted.len() as f64);
    assert!(alone("round_seconds") > 0.0);
    // Nothing was drafted: there is no step.
    let plain = TestServer::start(&["--plain"]);
    let response = plain.complete(&toy_request(1, 8));
    let rounds = speculation(&response);
    assert_eq!(rounds["num_spec_steps"], 0);
    assert_eq!(rounds["mean_acceptance_length"], 1.0);
    assert_eq!(counts(&rounds["per_step_drafted"]), [0; 8]);
}

/// Where nothing is rejected, all tokens but the 17th of each round were drafted.
/// Catches: drafted tokens behind a stop string count as accepted.
#[test]
fn accepted_tokens_are_those_that_were_kept() {
    let server = TestServer::of("toy:equal", &["-k", "16"]);
    let mut all = 0;
    for seed in 0..20 {
        let mut fields = toy_request(seed, 100);
        fields["temperature"] = 1.into();
        fields["stop"] = ["aa", "bb", "cc"].into_iter().collect();
        let response = server.complete(&fields);
        assert_eq!(response["choices"][0]["finish_reason"], "stop");
        let tokens = response["usage"]["completion_tokens"].as_u64().unwrap();
        let rounds = speculation(&response);
        let kept = tokens - tokens / 17;
        assert_eq!(rounds["num_accepted_draft_tokens"], kept, "{seed}: {rounds}");
        assert_eq!(sum(&rounds["per_step_accepted"]), kept);
        all += kept;
    }
    assert_eq!(server.meter("specdec_spec_decode_num_accepted_tokens_total"), all as f64);
}

/// Catches: the drafted tokens of a tree are its depth.
#[test]
fn all_nodes_of_trees_were_drafted() {
    let tree = ["--drafter", "model_tree", "--param", "tree=2,2", "--param", "siblings=top_k"];
    let server = TestServer::start(&tree);
    let response = server.complete(&toy_request(1, 30));
    let drafted = counts(&speculation(&response)["per_step_drafted"]);
    assert_eq!(drafted[0], 6, "{drafted:?}");
    assert_eq!(sum(&json!(drafted)), speculation(&response)["num_draft_tokens"].as_u64().unwrap());
    let metered = server.meter("specdec_spec_decode_num_draft_tokens_total");
    assert_eq!(metered, sum(&json!(drafted)) as f64);
}

/// Catches: all responses count as successes.
#[test]
fn responses_are_counted_by_status() {
    let server = TestServer::start(&[]);
    let counted =
        |status: u16| server.meter(&format!("specdec_requests_total{{status=\"{status}\"}}"));
    server.complete(&toy_request(1, 4));
    (0..3).for_each(|_| assert_eq!(server.get("/nowhere").status, 404));
    assert_eq!(counted(404), 3.0);
    // The completion, and the meters that were read before.
    assert_eq!(counted(200), 2.0);
}

/// Catches: running and waiting completions are exchanged.
#[test]
fn one_slot_runs_one_completion_and_the_others_wait() {
    let server = TestServer::of("embedded-target", &["--slots", "1"]);
    let mut long = toy_request(1, 1000);
    (long["ignore_eos"], long["n"]) = (true.into(), 9.into());
    let _open = server.send(request("POST", "/v1/completions", "", &long.to_string()).as_bytes());
    let gauge = |of: &str| server.meter(&format!("specdec_num_requests_{of}"));
    let mut seen = (0..1000).map(|_| [gauge("running"), gauge("waiting")]);
    // From the time at which all have come until the first one ends.
    assert_eq!(seen.find(|both| both[0] + both[1] == 9.0), Some([1.0, 8.0]));
}

/// Catches: usage counts a prompt once for each of its completions.
#[test]
fn usage_counts_a_prompt_once() {
    let server = TestServer::start(&[]);
    let mut fields = toy_request(1, 4);
    (fields["prompt"], fields["n"]) = (json!(["ab", "aba"]), 3.into());
    let expected = json!({"prompt_tokens": 5, "completion_tokens": 24, "total_tokens": 29});
    assert_eq!(server.complete(&fields)["usage"], expected);
}

/// Catches: the second prompt of a request has other random numbers than alone.
#[test]
fn each_prompt_has_the_completions_that_it_has_alone() {
    let server = TestServer::start(&[]);
    let texts = |prompt: Value| {
        let mut fields = toy_request(5, 30);
        (fields["prompt"], fields["n"]) = (prompt, 2.into());
        let choices = server.complete(&fields)["choices"].as_array().unwrap().clone();
        choices.iter().map(|choice| choice["text"].clone()).collect::<Vec<_>>()
    };
    let both = texts(json!(["ab", "ba"]));
    assert_eq!(both, [texts(json!("ab")), texts(json!("ba"))].concat());
}

/// The log-probabilities of a completion are those that the model gives it as a prompt.
/// Catches: all tokens of a round have the row of its first one.
#[test]
fn each_token_has_the_row_that_it_was_drawn_from() {
    let server = TestServer::of("toy:close", &["-k", "4"]);
    let mut fields = toy_request(3, 40);
    (fields["logprobs"], fields["return_token_ids"]) = (3.into(), true.into());
    let response = server.complete(&fields);
    let choice = &response["choices"][0];
    let accepted = counts(&speculation(&response)["per_step_accepted"]);
    assert!(accepted.iter().filter(|accepted| **accepted > 1).count() > 3, "{accepted:?}");
    let tokens = [vec![0, 1], counts(&choice["token_ids"])].concat();
    let again = server.complete(&json!({
        "prompt": tokens, "max_tokens": 0, "echo": true, "logprobs": 3,
    }));
    let again = &again["choices"][0]["logprobs"];
    for part in ["tokens", "token_logprobs", "top_logprobs"] {
        assert_eq!(
            again[part].as_array().unwrap()[2..],
            choice["logprobs"][part].as_array().unwrap()[..]
        );
    }
}

/// Catches: ranks begin at 0, or a token counts itself; the other tokens have ranks from 0 on.
#[test]
fn the_rank_counts_more_probable_tokens() {
    let server = TestServer::start(&[]);
    let prompt = [0, 1, 2, 3, 0, 2, 1, 3, 3];
    let fields = json!({"prompt": prompt, "max_tokens": 0, "prompt_logprobs": 4});
    let response = server.complete(&fields);
    let rows = response["choices"][0]["prompt_logprobs"].as_array().unwrap();
    let mut ranks = Vec::new();
    for (row, token) in rows.iter().zip(prompt).skip(1) {
        let log = |entry: &Value| entry["logprob"].as_f64().unwrap();
        let own = &row[token.to_string()];
        let better = row.as_object().unwrap().values().filter(|other| log(other) > log(own));
        assert_eq!(own["rank"], 1 + better.count(), "{row}");
        for entry in row.as_object().unwrap().values() {
            let than = |better: fn(&f64, &f64) -> bool| {
                let others = row.as_object().unwrap().values();
                others.filter(|other| better(&log(other), &log(entry))).count() as u64
            };
            // Equal tokens share their ranks in any order.
            let ranks = 1 + than(f64::gt)..=than(f64::ge);
            assert!(ranks.contains(&entry["rank"].as_u64().unwrap()), "{row}");
        }
        ranks.push(own["rank"].as_u64());
    }
    ranks.sort_unstable();
    ranks.dedup();
    assert!(ranks.len() > 1, "{ranks:?}");
}

/// Catches: the first token has no name; offsets are of bytes, begin with the completion, or begin
/// again in each part of a stream.
#[test]
fn offsets_say_where_tokens_begin_in_the_text() {
    let server = TestServer::start(&[]);
    let mut fields = toy_request(1, 3);
    (fields["echo"], fields["logprobs"]) = (true.into(), 1.into());
    let response = server.complete(&fields);
    let logs = &response["choices"][0]["logprobs"];
    let text = first_text(&response);
    assert_eq!(logs["tokens"], text.chars().map(String::from).collect::<Value>());
    assert_eq!(logs["text_offset"], json!([0, 1, 2, 3, 4]));
    assert_eq!(logs["token_logprobs"][0], Value::Null);
    let server = TestServer::of("embedded-target", &[]);
    let mut fields = json!({
        "prompt": "// é😀 naïve\nfn", "max_tokens": 12, "seed": 1, "logprobs": 1, "ignore_eos": true,
    });
    for echo in [true, false] {
        fields["echo"] = echo.into();
        fields["stream"] = false.into();
        let whole = server.complete(&fields);
        let (logs, text) = (&whole["choices"][0]["logprobs"], first_text(&whole));
        let offsets = counts(&logs["text_offset"]);
        assert!(offsets.is_sorted() && offsets[0] == 0, "{offsets:?}");
        for (token, at) in logs["tokens"].as_array().unwrap().iter().zip(&offsets) {
            let rest = text.chars().skip(*at as usize).collect::<String>();
            let token = token.as_str().unwrap();
            // A control token is no part of the text.
            let apart = token.contains('\u{FFFD}') || token == "<|bos|>";
            assert!(apart || rest.starts_with(token), "{token:?} {rest:?}");
        }
        fields["stream"] = true.into();
        let events = server.post("/v1/completions", &fields).events();
        let parts = events.iter().map(|event| &event["choices"][0]["logprobs"]);
        let parts = parts.flat_map(|part| counts(&part["text_offset"]));
        assert_eq!(parts.collect::<Vec<_>>(), offsets);
    }
}
