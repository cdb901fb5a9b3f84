//! SGLang's `/generate` with `return_logprob`.

use anyhow::{Context, Result};
use serde_json::Value;

use super::logged::{
    LoggedLine, LoggedSequence, LoggedToken, bytes, exchange, field, id, ids, list, log_prob, text,
};
use super::{TapeFormat, TapeReader};

pub(super) const FORMAT: TapeFormat = TapeFormat {
    name: "sglang",
    summary: "responses of /generate with return_logprob",
    read: TapeReader::Lines(read),
};

fn read(line: &Value) -> Result<LoggedLine> {
    let (request, response) = exchange(line);
    let meta = field(response, "meta_info")?;
    let tokens = list(meta, "output_token_logprobs")?.iter().map(token);
    // The first entry of a prompt has no probability, only its id.
    let prompt = meta.get("input_token_logprobs").and_then(Value::as_array);
    let prompt = prompt.filter(|prompt| {
        meta.get("prompt_tokens").and_then(Value::as_u64) == Some(prompt.len() as u64)
    });
    let prompt = prompt.map(|prompt| prompt.iter().map(|entry| id(&entry[1])).collect());
    let reason = meta.get("finish_reason");
    let reason = reason.and_then(|reason| reason.get("type").unwrap_or(reason).as_str());
    Ok(vec![LoggedSequence {
        prompt_tokens: ids(request.get("input_ids"))?.or(prompt.transpose()?),
        prompt: text(request.get("text")).filter(|_| request.get("meta_info").is_none()),
        tokens: tokens.collect::<Result<_>>()?,
        text: text(response.get("text")),
        stopped: reason == Some("stop"),
        ..LoggedSequence::default()
    }]
    .into())
}

/// An entry `[log p, id, text]`.
fn token(entry: &Value) -> Result<LoggedToken> {
    let entry = entry.as_array().context("an entry of \"output_token_logprobs\" is no list")?;
    let part = |at: usize| entry.get(at);
    Ok(LoggedToken {
        id: Some(id(part(1).unwrap_or(&Value::Null))?),
        bytes: bytes(None, part(2)),
        log_prob: log_prob(part(0))?,
    })
}
