//! SGLang's `/generate`.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::api::{AnsweredText, AskedText, ServerApi, end, ids};
use super::http::HttpServer;

pub(super) const API: ServerApi = ServerApi {
    name: "sglang",
    summary: "/generate with input_ids",
    path: "/generate",
    check: |_| Ok(()),
    model: |_| Ok(None),
    request,
    answer,
};

fn request(_: &HttpServer, asked: &AskedText<'_>) -> Value {
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

fn answer(answer: &Value) -> Result<AnsweredText> {
    let reason = &answer["meta_info"]["finish_reason"];
    Ok(AnsweredText {
        tokens: ids(answer.get("output_ids")).context("it has no \"output_ids\"")?,
        end: end(reason["type"].as_str().or(reason.as_str())),
        accepted: None,
        drafted: None,
    })
}
