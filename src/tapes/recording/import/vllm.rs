//! vLLM's `/v1/completions` with `logprobs` and `return_token_ids`; token texts may be
//! `token_id:N` (`return_tokens_as_token_ids`).

use anyhow::Result;
use serde_json::Value;

use super::logged::{
    LoggedLine, LoggedRounds, LoggedSequence, LoggedToken, count, exchange, ids, list, log_prob,
    text,
};
use super::rounds::rounds;
use super::{TapeFormat, TapeReader};

pub(super) const FORMAT: TapeFormat = TapeFormat {
    name: "vllm",
    summary: "responses of /v1/completions with logprobs and return_token_ids, or with metrics of \
              speculative decoding",
    read: TapeReader::Lines(read),
};

fn read(line: &Value) -> Result<LoggedLine> {
    let (request, response) = exchange(line);
    let choice = |choice: &Value| {
        let prompt = request.get("prompt");
        let own = ids(choice.get("prompt_token_ids"))?;
        Ok(LoggedSequence {
            prompt_tokens: own.or(ids(response.get("prompt_token_ids"))?).or(ids(prompt)?),
            prompt: text(prompt),
            tokens: tokens(choice)?,
            text: text(choice.get("text")),
            stopped: choice.get("finish_reason").and_then(Value::as_str) == Some("stop"),
            ..LoggedSequence::default()
        })
    };
    let mut sequences =
        list(response, "choices")?.iter().map(choice).collect::<Result<Vec<_>>>()?;
    let rounds = logged_rounds(response)?;
    if rounds.is_some() {
        // A log of rounds need not contain the tokens.
        sequences.retain(|sequence| !sequence.tokens.is_empty());
    }
    Ok(LoggedLine { sequences, rounds: rounds.into_iter().collect() })
}

/// What `--per-request-spec-decode-metrics` adds.
fn logged_rounds(response: &Value) -> Result<Option<LoggedRounds>> {
    let metrics = response.get("metrics").and_then(|all| all.get("speculative_decoding"));
    let Some(found) = metrics.map(rounds).transpose()?.flatten() else { return Ok(None) };
    let used = |name: &str| count(response.get("usage").and_then(|usage| usage.get(name)));
    Ok(Some(LoggedRounds {
        prompt: text(response.get("id")).unwrap_or_default(),
        prompt_tokens: used("prompt_tokens").unwrap_or_default(),
        tokens: used("completion_tokens").unwrap_or_default(),
        ..found
    }))
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
