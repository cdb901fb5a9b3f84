//! llama.cpp's `/completion`.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::api::{AnsweredText, AskedText, ServerApi, ids};
use super::http::HttpServer;
use crate::tape::TapeEnd;

pub(super) const API: ServerApi = ServerApi {
    name: "llama_cpp",
    summary: "/completion with return_tokens; its samplers in the order of specdec's",
    path: "/completion",
    check: |_| Ok(()),
    model: |_| Ok(None),
    request,
    answer,
};

/// Its names of our settings, beside those that are the same.
const NAMES: [(&str, &str); 1] = [("repetition_penalty", "repeat_penalty")];

fn request(_: &HttpServer, asked: &AskedText<'_>) -> Value {
    // What is not named has a default that changes the law.
    let neutral = json!({
        "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0, "repeat_last_n": -1,
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

fn answer(answer: &Value) -> Result<AnsweredText> {
    // The token that ended a text is not among its tokens, so that the text counts as cut.
    Ok(AnsweredText {
        tokens: ids(answer.get("tokens")).context("it has no \"tokens\"")?,
        end: TapeEnd::Cut,
        accepted: None,
        drafted: None,
    })
}
