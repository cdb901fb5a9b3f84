//! vLLM's `/v1/completions` with `return_token_ids`, which `specdec serve` speaks, too.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::api::{
    CompletionRequest, LogprobsApi, LogprobsRequest, ServerApi, ServerCompletion, TopLogprobs, end,
    numbers,
};
use super::http::HttpServer;
use crate::core::distribution::Token;
use crate::core::sampling::SamplingParams;

pub(super) const API: ServerApi = ServerApi {
    name: "vllm",
    summary: "/v1/completions with return_token_ids",
    path: "/v1/completions",
    check,
    model,
    request,
    answer,
    logprobs: LOGPROBS,
};

pub(super) const LOGPROBS: LogprobsApi = LogprobsApi {
    whole: true,
    in_turn: false,
    begin: |_| Ok(None),
    request: logprobs_request,
    answer: logprobs,
    encode,
};

/// A server that is configured to accept drafts at random says so in its settings, which it shows
/// in its development mode.
fn check(server: &HttpServer) -> Result<()> {
    let shown = server.get_text("/server_info?config_format=json").unwrap_or_default();
    let synthetic = shown.split("rejection_sample_method").nth(1).is_some_and(|value| {
        value.trim_start_matches(|c: char| !c.is_alphanumeric()).starts_with("synthetic")
    });
    if synthetic {
        bail!("{}: it accepts drafts at random (synthetic) and ignores its models", server.url);
    }
    Ok(())
}

pub(super) fn model(server: &HttpServer) -> Result<Option<String>> {
    let models = server.get("/v1/models").with_context(|| format!("{}/v1/models", server.url))?;
    let name = models["data"][0]["id"].as_str().map(str::to_owned);
    name.context("it lists no model: name one with --served-model").map(Some)
}

fn request(server: &HttpServer, asked: &CompletionRequest<'_>) -> Value {
    let mut body = openai_completion(server, asked);
    name_all(&mut body, asked.sampling.clone());
    body
}

/// The request for a completion to any server of OpenAI's protocol.
pub(super) fn openai_completion(server: &HttpServer, asked: &CompletionRequest<'_>) -> Value {
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

fn answer(answer: &Value) -> Result<ServerCompletion> {
    let choice = answer["choices"].get(0).context("it has no choice")?;
    let tokens = numbers(choice.get("token_ids"));
    let rounds = &answer["metrics"]["speculative_decoding"];
    Ok(ServerCompletion {
        prompt: numbers(choice.get("prompt_token_ids")),
        tokens: tokens.context("it has no \"token_ids\"")?,
        end: end(choice["finish_reason"].as_str()),
        accepted: numbers(rounds.get("per_step_accepted")),
        drafted: numbers(rounds.get("per_step_drafted")),
    })
}

/// All settings are neutral, so the server reports the distribution before all processors under
/// every `--logprobs-mode`.
fn logprobs_request(server: &HttpServer, asked: &LogprobsRequest<'_>) -> Value {
    let mut body = openai_logprobs(server, asked);
    name_all(&mut body, SamplingParams::NEUTRAL);
    body["ignore_eos"] = json!(true);
    body
}

/// Names all settings, since those that are not named get defaults of the model.
fn name_all(body: &mut Value, sampling: SamplingParams) {
    let settings = serde_json::to_value(sampling).unwrap_or_default();
    for (key, value) in settings.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
}

/// The id in a token of the form `token_id:N`.
pub(super) fn numbered(token: &str) -> Option<Token> {
    token.strip_prefix("token_id:")?.parse().ok()
}

/// The request for log-probabilities to any server of OpenAI's protocol.
pub(super) fn openai_logprobs(server: &HttpServer, asked: &LogprobsRequest<'_>) -> Value {
    json!({
        "model": server.model,
        "prompt": asked.prefixes,
        "max_tokens": 1,
        "temperature": 1.0,
        "top_p": 1.0,
        "logprobs": asked.count.map_or(json!(-1), |count| json!(count)),
        "return_tokens_as_token_ids": true,
    })
}

fn logprobs(answer: &Value) -> Result<Vec<TopLogprobs>> {
    let mut choices = answer["choices"].as_array().context("it has no \"choices\"")?.clone();
    choices.sort_by_key(|choice| choice["index"].as_u64());
    let top = |choice: &Value| {
        let entries = choice["logprobs"]["top_logprobs"][0].as_object()?;
        entries.iter().map(|(token, log)| Some((numbered(token)?, log.as_f64()?))).collect()
    };
    let all = choices.iter().map(top).collect::<Option<_>>();
    all.context(
        "it has no \"top_logprobs\" whose tokens have the form token_id:N, and texts alone do not \
         identify tokens",
    )
}

/// A server that returns token ids returns those of the prompt, too.
fn encode(server: &HttpServer, text: &str) -> Result<Vec<Token>> {
    let body = json!({
        "model": server.model, "prompt": text, "max_tokens": 1, "return_token_ids": true,
    });
    let answer = server.post(API.path, &body)?;
    numbers(answer["choices"][0].get("prompt_token_ids"))
        .context("its answer has no \"prompt_token_ids\", so the prompt's tokens are unknown")
}
