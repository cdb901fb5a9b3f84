//! Any other server of OpenAI's `/v1/completions`, if it tells token ids in some way.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::api::{AnsweredText, AskedText, LawsApi, ServerApi, end, ids};
use super::http::HttpServer;
use super::vllm;
use crate::distribution::Token;

pub(super) const API: ServerApi = ServerApi {
    name: "openai",
    summary: "/v1/completions with token ids as prompt and logprobs whose tokens are token_id:N",
    path: "/v1/completions",
    check: |_| Ok(()),
    model: vllm::model,
    request,
    answer,
    laws: LawsApi { whole: false, request: vllm::asked_laws, ..vllm::LAWS },
};

fn request(server: &HttpServer, asked: &AskedText<'_>) -> Value {
    let mut body = vllm::asked_text(server, asked);
    body["logprobs"] = json!(0);
    body["return_tokens_as_token_ids"] = json!(true);
    body
}

fn answer(answer: &Value) -> Result<AnsweredText> {
    let choice = answer["choices"].get(0).context("it has no choice")?;
    let numbered = |token: &Value| vllm::numbered(token.as_str()?);
    let told = choice["logprobs"]["tokens"].as_array();
    let told = told.and_then(|tokens| tokens.iter().map(numbered).collect::<Option<Vec<Token>>>());
    let tokens = ids(choice.get("token_ids")).or(told);
    Ok(AnsweredText {
        tokens: tokens.context(
            "it has neither \"token_ids\" nor tokens of the form token_id:N, and a text alone does \
             not tell its tokens",
        )?,
        end: end(choice["finish_reason"].as_str()),
        accepted: None,
        drafted: None,
    })
}
