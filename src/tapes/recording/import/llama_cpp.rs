//! llama.cpp's `/completion` with `n_probs` and, for ids, `return_tokens`.

use anyhow::{Result, bail};
use serde_json::Value;

use super::logged::{
    LoggedLine, LoggedSequence, LoggedToken, bytes, count, exchange, id, ids, log_prob, text,
};
use super::{TapeFormat, TapeReader};
use crate::core::distribution::Token;

pub(super) const FORMAT: TapeFormat = TapeFormat {
    name: "llama_cpp",
    summary: "responses of llama.cpp's /completion with n_probs",
    read: TapeReader::Lines(read),
};

fn read(line: &Value) -> Result<LoggedLine> {
    let (request, response) = exchange(line);
    let entries = response.get("completion_probabilities").and_then(Value::as_array);
    let named = ids(response.get("tokens"))?.filter(|ids| !ids.is_empty());
    let logged = entries.into_iter().flatten().map(token).collect::<Result<Vec<_>>>()?;
    let tokens = match named {
        Some(ids) => aligned(&ids, logged)?,
        None => logged,
    };
    let predicted = count(response.get("tokens_predicted")).unwrap_or(tokens.len());
    if !tokens.is_empty() && tokens.len() != predicted {
        bail!(
            "it has {predicted} tokens and logs {}: ask for \"return_tokens\", since only the last \
             token of a character in several tokens has an entry",
            tokens.len()
        );
    }
    if tokens.len() > 1 && tokens[1..].iter().all(|token| token.log_prob == Some(0.0)) {
        bail!(
            "every token but the first has log-probability 0, as llama.cpp logs under \
             speculation: log a server without a draft"
        );
    }
    let prompt = request.get("prompt").or(response.get("prompt"));
    let stop = response.get("stop_type").and_then(Value::as_str);
    Ok(vec![LoggedSequence {
        prompt_tokens: ids(prompt)?,
        prompt: text(prompt),
        processed: entries.is_some_and(|all| all.iter().any(|entry| entry.get("prob").is_some())),
        tokens,
        text: text(response.get("content")),
        stopped: matches!(stop, Some("eos" | "word")),
        ..LoggedSequence::default()
    }]
    .into())
}

/// The tokens with these ids and entries. Only the last token of a character in several tokens has
/// an entry, so some tokens may have none.
fn aligned(ids: &[Token], entries: Vec<LoggedToken>) -> Result<Vec<LoggedToken>> {
    let (count, mut entries) = (entries.len(), entries.into_iter().peekable());
    let own = |entry: &LoggedToken, id: Token| match entry.id {
        Some(own) => own == id,
        None => count == ids.len(),
    };
    let tokens = ids.iter().map(|&id| {
        let entry = entries.next_if(|entry| own(entry, id)).unwrap_or_default();
        LoggedToken { id: Some(id), ..entry }
    });
    let tokens = tokens.collect();
    if entries.peek().is_some() {
        bail!("\"completion_probabilities\" has other tokens than \"tokens\"");
    }
    Ok(tokens)
}

/// An entry; with `post_sampling_probs` it has `prob` instead of `logprob`.
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
