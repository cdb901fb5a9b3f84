//! SGLang's `/generate`.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::api::{
    CompletionRequest, LogprobsApi, LogprobsRequest, ServerApi, ServerCompletion, TopLogprobs, end,
    logprob, numbers,
};
use super::http::HttpServer;
use crate::core::distribution::Token;

pub(super) const API: ServerApi = ServerApi {
    name: "sglang",
    summary: "/generate with input_ids",
    path: "/generate",
    check: |_| Ok(()),
    model: |_| Ok(None),
    request,
    answer,
    // A request for more log-probabilities than there are tokens would end its scheduler.
    logprobs: LogprobsApi {
        whole: false,
        in_turn: false,
        begin: |_| Ok(None),
        request: logprobs_request,
        answer: logprobs,
        encode,
    },
};

fn request(_: &HttpServer, asked: &CompletionRequest<'_>) -> Value {
    let mut sampling = json!({
        "max_new_tokens": asked.max_tokens,
        "temperature": 1.0,
        "sampling_seed": asked.seed,
    });
    for (key, value) in asked.sampling.changes() {
        sampling[key] = json!(value.number());
    }
    json!({"input_ids": asked.prompt.tokens, "sampling_params": sampling})
}

fn answer(answer: &Value) -> Result<ServerCompletion> {
    let reason = &answer["meta_info"]["finish_reason"];
    Ok(ServerCompletion {
        prompt: None,
        tokens: numbers(answer.get("output_ids")).context("it has no \"output_ids\"")?,
        end: end(reason["type"].as_str().or(reason.as_str())),
        accepted: None,
        drafted: None,
    })
}

fn logprobs_request(_: &HttpServer, asked: &LogprobsRequest<'_>) -> Value {
    // With these settings it samples from the distribution before all processors.
    let neutral = json!({
        "max_new_tokens": 1, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0,
    });
    json!({
        "input_ids": asked.prefixes,
        "sampling_params": neutral,
        "return_logprob": true,
        "top_logprobs_num": asked.count,
    })
}

fn logprobs(answer: &Value) -> Result<Vec<TopLogprobs>> {
    let top = |completion: &Value| {
        let entries = completion["meta_info"]["output_top_logprobs"][0].as_array()?;
        entries.iter().map(|entry| logprob(entry.get(1), entry.get(0))).collect()
    };
    let completions = answer.as_array().map_or(std::slice::from_ref(answer), Vec::as_slice);
    let all = completions.iter().map(top).collect::<Option<_>>();
    all.context("it has no \"output_top_logprobs\" of the form [[logprob, id, text], …]")
}

fn encode(server: &HttpServer, text: &str) -> Result<Vec<Token>> {
    let answer = server.post("/tokenize", &json!({"prompt": text}))?;
    numbers(answer.get("tokens")).context("its answer at /tokenize has no \"tokens\"")
}
