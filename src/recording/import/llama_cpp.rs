//! llama.cpp's `/completion` with `n_probs` and, for ids, `return_tokens`.

use anyhow::{Result, bail};
use serde_json::Value;

use super::logged::{
    LoggedLine, LoggedText, LoggedToken, bytes, exchange, id, ids, log_prob, text,
};
use super::{TapeFormat, TapeReader};

pub(super) const FORMAT: TapeFormat = TapeFormat {
    name: "llama_cpp",
    summary: "responses of llama.cpp's /completion with n_probs",
    read: TapeReader::Lines(read),
};

fn read(line: &Value) -> Result<LoggedLine> {
    let (request, response) = exchange(line);
    let entries = response.get("completion_probabilities").and_then(Value::as_array);
    let named = ids(response.get("tokens"))?.filter(|ids| !ids.is_empty());
    let mut tokens = match (entries, &named) {
        (Some(entries), _) => entries.iter().map(token).collect::<Result<Vec<_>>>()?,
        (None, Some(ids)) => {
            let token = |&id| LoggedToken { id: Some(id), ..LoggedToken::default() };
            ids.iter().map(token).collect()
        }
        (None, None) => Vec::new(),
    };
    for (token, id) in tokens.iter_mut().zip(named.into_iter().flatten()) {
        token.id = Some(id);
    }
    if tokens.len() > 1 && tokens[1..].iter().all(|token| token.log_prob == Some(0.0)) {
        bail!(
            "every token but the first has log-probability 0, as llama.cpp logs under \
             speculation: log a server without a draft"
        );
    }
    let prompt = request.get("prompt").or(response.get("prompt"));
    let stop = response.get("stop_type").and_then(Value::as_str);
    Ok(vec![LoggedText {
        prompt_tokens: ids(prompt)?,
        prompt: text(prompt),
        processed: entries.is_some_and(|all| all.iter().any(|entry| entry.get("prob").is_some())),
        tokens,
        text: text(response.get("content")),
        stopped: matches!(stop, Some("eos" | "word")),
        ..LoggedText::default()
    }]
    .into())
}

/// An entry; with `post_sampling_probs` it has `prob` in the place of `logprob`.
fn token(entry: &Value) -> Result<LoggedToken> {
    let log = match entry.get("prob").and_then(Value::as_f64) {
        Some(prob) if (0.0..=1.0 + 1e-5).contains(&prob) => Some(prob.ln()),
        Some(prob) => bail!("{prob} is no probability"),
        None => log_prob(entry.get("logprob"))?,
    };
    Ok(LoggedToken {
        id: entry.get("id").map(id).transpose()?,
        bytes: bytes(entry.get("bytes"), entry.get("token")),
        log_prob: log,
    })
}
