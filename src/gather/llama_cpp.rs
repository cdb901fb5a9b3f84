//! llama.cpp's `/completion`.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::api::{
    CompletionRequest, LogprobsApi, LogprobsRequest, ServerApi, ServerCompletion, TopLogprobs,
    logprob, numbers,
};
use super::http::HttpServer;
use crate::core::distribution::Token;
use crate::tapes::tape::TapeEnd;

pub(super) const API: ServerApi = ServerApi {
    name: "llama_cpp",
    summary: "/completion with return_tokens; its samplers in the order of specdec's",
    path: "/completion",
    check: |_| Ok(()),
    model: |_| Ok(None),
    request,
    answer,
    logprobs: LogprobsApi {
        whole: true,
        // Concurrent prompts would use several slots, and a new request clears the other slots.
        in_turn: true,
        begin,
        request: logprobs_request,
        answer: logprobs,
        encode,
    },
};

/// Settings that have another name there.
const NAMES: [(&str, &str); 1] = [("repetition_penalty", "repeat_penalty")];

fn request(_: &HttpServer, asked: &CompletionRequest<'_>) -> Value {
    // A setting that is not named gets a default that changes the distribution. Penalties see the whole
    // text.
    let text = asked.prompt.tokens.len() + asked.max_tokens;
    let neutral = json!({
        "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0, "repeat_last_n": text,
    });
    let mut body = json!({
        "prompt": asked.prompt.tokens,
        "n_predict": asked.max_tokens,
        "temperature": 1.0,
        "seed": asked.seed,
        "return_tokens": true,
        "cache_prompt": false,
        "samplers": ["penalties", "temperature", "top_k", "top_p", "min_p"],
    });
    for (key, value) in neutral.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    for (key, value) in asked.sampling.changes() {
        let name = NAMES.iter().find(|(own, _)| *own == key).map_or(key, |(_, theirs)| theirs);
        body[name] = json!(value.number());
    }
    body
}

fn answer(answer: &Value) -> Result<ServerCompletion> {
    // The token that ended a completion is not among its tokens, so the completion counts as cut.
    Ok(ServerCompletion {
        prompt: None,
        tokens: numbers(answer.get("tokens")).context("it has no \"tokens\"")?,
        end: TapeEnd::Cut,
        accepted: None,
        drafted: None,
    })
}

/// A token that is a whole character. After a token that is a part of one, the server generates
/// another token and reports the distribution of that one instead.
fn begin(server: &HttpServer) -> Result<Option<Token>> {
    let tokens = tokenize(server, "a", false)?;
    tokens.last().copied().context("it has no token for the text \"a\"").map(Some)
}

fn encode(server: &HttpServer, text: &str) -> Result<Vec<Token>> {
    tokenize(server, text, true)
}

fn tokenize(server: &HttpServer, text: &str, add_special: bool) -> Result<Vec<Token>> {
    let answer = server.post("/tokenize", &json!({"content": text, "add_special": add_special}))?;
    numbers(answer.get("tokens")).context("its answer at /tokenize has no \"tokens\"")
}

fn logprobs_request(_: &HttpServer, asked: &LogprobsRequest<'_>) -> Value {
    // The reported logits are those before its samplers, which draw one token.
    json!({
        "prompt": asked.prefixes.first(),
        "n_predict": 1,
        "n_probs": asked.count.unwrap_or(WHOLE),
        "post_sampling_probs": false,
        "logit_bias": asked.token.iter().map(|token| json!([token, 1e4])).collect::<Vec<_>>(),
        "temperature": 1.0,
        "samplers": ["temperature"],
        "cache_prompt": true,
    })
}

/// More log-probabilities than there are tokens, which the server takes for all of them.
const WHOLE: usize = 1 << 30;

fn logprobs(answer: &Value) -> Result<Vec<TopLogprobs>> {
    let entries = answer["completion_probabilities"][0]["top_logprobs"].as_array();
    let top = entries.and_then(|entries| {
        entries.iter().map(|entry| logprob(entry.get("id"), entry.get("logprob"))).collect()
    });
    Ok(vec![top.context("it has no \"completion_probabilities\" with ids and logprobs")?])
}
