//! vLLM's `/v1/completions` with `logprobs` and `return_token_ids`; token texts may be
//! `token_id:N` (`return_tokens_as_token_ids`).

use anyhow::Result;
use serde_json::Value;

use super::TapeFormat;
use super::logged::{LoggedText, LoggedToken, exchange, ids, list, log_prob, text};

pub(super) const FORMAT: TapeFormat = TapeFormat {
    name: "vllm",
    summary: "responses of /v1/completions with logprobs and return_token_ids",
    read,
};

fn read(line: &Value) -> Result<Vec<LoggedText>> {
    let (request, response) = exchange(line);
    let choice = |choice: &Value| {
        let prompt = request.get("prompt");
        let own = ids(choice.get("prompt_token_ids"))?;
        Ok(LoggedText {
            prompt_tokens: own.or(ids(response.get("prompt_token_ids"))?).or(ids(prompt)?),
            prompt: text(prompt),
            tokens: tokens(choice)?,
            text: text(choice.get("text")),
            stopped: choice.get("finish_reason").and_then(Value::as_str) == Some("stop"),
            processed: false,
        })
    };
    list(response, "choices")?.iter().map(choice).collect()
}

fn tokens(choice: &Value) -> Result<Vec<LoggedToken>> {
    let named = ids(choice.get("token_ids"))?;
    let logs = choice.get("logprobs").filter(|logs| logs.is_object());
    let part = |name: &str| logs.and_then(|logs| logs.get(name)).and_then(Value::as_array);
    let (spelled, log_probs) = (part("tokens"), part("token_logprobs"));
    let lengths = [named.as_ref().map(Vec::len), spelled.map(Vec::len), log_probs.map(Vec::len)];
    let count = lengths.into_iter().flatten().max().unwrap_or(0);
    let token = |at: usize| {
        let spelled = spelled.and_then(|tokens| tokens.get(at)).and_then(Value::as_str);
        let numbered = spelled.and_then(|text| text.strip_prefix("token_id:")?.parse().ok());
        let named = named.as_ref().and_then(|ids| ids.get(at).copied());
        Ok(LoggedToken {
            id: named.or(numbered),
            bytes: spelled.map(|text| text.as_bytes().to_vec()),
            log_prob: log_prob(log_probs.and_then(|logs| logs.get(at)))?,
        })
    };
    (0..count).map(token).collect()
}
