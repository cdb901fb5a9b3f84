//! vLLM's `/v1/completions` with `return_token_ids`, which `specdec serve` speaks, too.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::api::{AnsweredText, AskedText, ServerApi, counts, end, ids};
use super::http::HttpServer;

pub(super) const API: ServerApi = ServerApi {
    name: "vllm",
    summary: "/v1/completions with return_token_ids",
    path: "/v1/completions",
    check,
    model,
    request,
    answer,
};

/// A server that was told to accept drafts at random says so where it shows its settings, which
/// it does in its development mode.
fn check(server: &HttpServer) -> Result<()> {
    let shown = server.get_text("/server_info?config_format=json").unwrap_or_default();
    let synthetic = shown.split("rejection_sample_method").nth(1).is_some_and(|value| {
        value.trim_start_matches(|c: char| !c.is_alphanumeric()).starts_with("synthetic")
    });
    if synthetic {
        bail!("{}: it accepts drafts at random (synthetic), whatever its models say", server.url);
    }
    Ok(())
}

pub(super) fn model(server: &HttpServer) -> Result<Option<String>> {
    let models = server.get("/v1/models").with_context(|| format!("{}/v1/models", server.url))?;
    let name = models["data"][0]["id"].as_str().map(str::to_owned);
    name.context("it lists no model: name one with --served-model").map(Some)
}

pub(super) fn request(server: &HttpServer, asked: &AskedText<'_>) -> Value {
    let mut body = json!({
        "model": server.model,
        "prompt": asked.prompt.tokens,
        "max_tokens": asked.max_tokens,
        "temperature": 1.0,
        "seed": asked.seed,
        "return_token_ids": true,
    });
    for (key, value) in asked.sampling.changes() {
        body[key] = json!(value.number());
    }
    body
}

fn answer(answer: &Value) -> Result<AnsweredText> {
    let choice = answer["choices"].get(0).context("it has no choice")?;
    let tokens = ids(choice.get("token_ids"));
    let rounds = &answer["metrics"]["speculative_decoding"];
    Ok(AnsweredText {
        tokens: tokens.context("it has no \"token_ids\"")?,
        end: end(choice["finish_reason"].as_str()),
        accepted: counts(rounds.get("per_step_accepted")),
        drafted: counts(rounds.get("per_step_drafted")),
    })
}
