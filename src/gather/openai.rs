//! Any other server of OpenAI's `/v1/completions` that reports token ids in some form.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::api::{CompletionRequest, LogprobsApi, ServerApi, ServerCompletion, end, numbers};
use super::http::HttpServer;
use super::vllm;
use crate::core::distribution::Token;

pub(super) const API: ServerApi = ServerApi {
    name: "openai",
    summary: "/v1/completions with token ids as prompt and logprobs whose tokens are token_id:N",
    path: "/v1/completions",
    check: |_| Ok(()),
    model: vllm::model,
    request,
    answer,
    logprobs: LogprobsApi { whole: false, request: vllm::openai_logprobs, ..vllm::LOGPROBS },
};

fn request(server: &HttpServer, asked: &CompletionRequest<'_>) -> Value {
    let mut body = vllm::openai_completion(server, asked);
    body["logprobs"] = json!(0);
    body["return_tokens_as_token_ids"] = json!(true);
    body
}

fn answer(answer: &Value) -> Result<ServerCompletion> {
    let choice = answer["choices"].get(0).context("it has no choice")?;
    let numbered = |token: &Value| vllm::numbered(token.as_str()?);
    let listed = choice["logprobs"]["tokens"].as_array();
    let listed = listed.and_then(|all| all.iter().map(numbered).collect::<Option<Vec<Token>>>());
    let tokens = numbers(choice.get("token_ids")).or(listed);
    Ok(ServerCompletion {
        prompt: numbers(choice.get("prompt_token_ids")),
        tokens: tokens.context(
            "it has neither \"token_ids\" nor tokens of the form token_id:N, and its text alone \
             does not determine its tokens",
        )?,
        end: end(choice["finish_reason"].as_str()),
        accepted: None,
        drafted: None,
    })
}
