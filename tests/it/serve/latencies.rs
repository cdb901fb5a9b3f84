//! Latencies in `/metrics`, and the names that vLLM has for its metrics.

use crate::serve_support::{TestServer, toy_request};

/// Catches: a round without tokens of its own counts; the first token is one between two rounds; the
/// wait is not part of the whole; a completion that ended is not counted by its reason.
#[test]
fn latencies_are_counted_for_every_completion() {
    let server = TestServer::start(&["--drafter", "prompt_lookup", "-k", "3"]);
    let response = server.complete(&toy_request(1, 60));
    let rounds =
        response["metrics"]["speculative_decoding"]["per_step_drafted"].as_array().unwrap();
    let of = |name: &str, part: &str| server.meter(&format!("specdec_{name}_seconds_{part}"));
    for name in ["time_to_first_token", "e2e_request_latency", "request_queue_time"] {
        assert_eq!(of(name, "count"), 1.0, "{name}");
    }
    assert_eq!(of("inter_token_latency", "count"), (rounds.len() - 1) as f64);
    let (first, between) = (of("time_to_first_token", "sum"), of("inter_token_latency", "sum"));
    let (queue, whole) = (of("request_queue_time", "sum"), of("e2e_request_latency", "sum"));
    assert!(0.0 < queue && queue < first && first < whole, "{queue} {first} {whole}");
    assert!(first + between <= whole, "{first} {between} {whole}");
    // The tokens after the first round, in the time after it.
    let tokens = 60.0
        - 1.0
        - response["metrics"]["speculative_decoding"]["per_step_accepted"][0].as_f64().unwrap();
    let mean = of("request_time_per_output_token", "sum");
    assert!((mean * tokens - between).abs() < 1e-6, "{mean} {tokens} {between}");
    assert_eq!(server.meter("specdec_request_success_total{finished_reason=\"length\"}"), 1.0);
}

/// Catches: a name of specdec's own that becomes vLLM's; a label that is missing.
#[test]
fn metrics_have_the_names_of_vllm_on_request() {
    let server = TestServer::start(&["--compat", "vllm", "--served-model-name", "m"]);
    server.complete(&toy_request(1, 8));
    let labels = "model_name=\"m\",engine=\"0\"";
    for (name, count) in [
        ("time_to_first_token_seconds_count", 1.0),
        ("e2e_request_latency_seconds_count", 1.0),
        ("generation_tokens_total", 8.0),
        ("num_requests_running", 0.0),
    ] {
        assert_eq!(server.meter(&format!("vllm:{name}{{{labels}}}")), count, "{name}");
    }
    let text = server.get("/metrics").body;
    for name in ["vllm:spec_decode_num_drafts_total", "vllm:num_requests_waiting"] {
        assert!(text.contains(&format!("\n{name}{{{labels}}} ")), "{text}");
    }
    let success = format!("vllm:request_success_total{{{labels},finished_reason=\"length\"}} 1");
    assert!(text.contains(&success), "{text}");
    // vLLM has no rounds that requests share.
    assert!(text.contains("\nspecdec_rounds_total{") && !text.contains("vllm:rounds"), "{text}");
}
