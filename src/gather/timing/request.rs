//! A completion whose chunks are timed.

use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::gather::http::HttpServer;
use crate::tapes::recording::{RequestRounds, request_rounds};

/// Chunks that arrive within this share of the mean interval are of one round, if a server does not
/// report its rounds.
const ONE_ROUND: f64 = 0.2;

/// A completion, seen from outside.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TimedCompletion {
    /// Tokens of the prompt, and of the completion, by the server's count.
    pub(super) prompt: usize,
    pub(super) tokens: usize,
    /// Arrivals of chunks with text, in ms after the request.
    pub(super) arrivals: Vec<f64>,
    /// Rounds, by the server's count or by the arrivals.
    pub(super) rounds: f64,
    /// Whether the first token came before all rounds, from the prefill.
    pub(super) first_before: bool,
    /// Drafted tokens in all rounds; none if the server does not report them.
    pub(super) drafted: Option<f64>,
    /// The most tokens that a round drafted.
    pub(super) most: usize,
}

/// The request for a completion of exactly `tokens` tokens, where the server allows that.
pub(super) fn body(server: &HttpServer, prompt: &str, tokens: usize, temperature: f64) -> Value {
    json!({
        "model": server.model,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": temperature,
        // Servers have defaults of their own.
        "top_k": -1,
        "top_p": 1.0,
        "min_p": 0.0,
        "ignore_eos": true,
        "stream": true,
        "stream_options": {"include_usage": true},
    })
}

/// Sends a request. `arrivals` count from `begun`. A server that decodes plainly emits a token per
/// round, whichever of them arrive together.
pub(super) fn timed(
    server: &HttpServer,
    body: &Value,
    begun: Instant,
    plain: bool,
) -> Result<TimedCompletion> {
    let (mut arrivals, mut whole) = (Vec::new(), Value::Null);
    server.stream("/v1/completions", body, |event| {
        if has_text(&event) {
            arrivals.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        merge(&mut whole, event);
        Ok(())
    })?;
    let count = |name: &str| whole["usage"][name].as_u64().map(|count| count as usize);
    let counted = count("prompt_tokens").zip(count("completion_tokens"));
    let (prompt, tokens) = counted.filter(|_| !arrivals.is_empty()).context(
        "its stream has no text, or no \"usage\" with prompt_tokens and completion_tokens",
    )?;
    let known = request_rounds(&whole)?;
    let drafted = known.as_ref().and_then(|known| match known.drafted_known {
        true => Some(known.steps.iter().map(|step| step.drafted).sum::<usize>() as f64),
        false => whole["timings"]["draft_n"].as_f64(),
    });
    let rounds = match &known {
        _ if plain => tokens as f64,
        Some(known) => known.rounds,
        None => bursts(&arrivals),
    };
    // Every round emits its accepted tokens and one more.
    let emitted =
        |known: &RequestRounds| known.steps.iter().map(|step| step.accepted + 1).sum::<usize>();
    let first_before = !plain && known.as_ref().is_some_and(|known| emitted(known) + 1 == tokens);
    let steps = known.iter().flat_map(|known| &known.steps).map(|step| step.drafted).max();
    let most = steps.or(drafted.map(|drafted| (drafted / rounds).ceil() as usize));
    let most = most.unwrap_or(0);
    Ok(TimedCompletion { prompt, tokens, arrivals, rounds, first_before, drafted, most })
}

impl TimedCompletion {
    /// Rounds from the first arrival to the last one.
    pub(super) fn rounds_between(&self) -> f64 {
        if self.first_before { self.rounds } else { self.rounds - 1.0 }
    }

    /// Tokens per round.
    pub(super) fn per_round(&self) -> f64 {
        (self.tokens - usize::from(self.first_before)) as f64 / self.rounds
    }
}

fn has_text(event: &Value) -> bool {
    let Some(choice) = event["choices"].get(0) else { return false };
    let text = choice["text"].as_str().is_some_and(|text| !text.is_empty());
    text || choice["token_ids"].as_array().is_some_and(|tokens| !tokens.is_empty())
}

/// Keeps the last value of each field that is not null.
fn merge(whole: &mut Value, event: Value) {
    let Value::Object(event) = event else { return };
    for (key, value) in event.into_iter().filter(|(_, value)| !value.is_null()) {
        whole[key] = value;
    }
}

/// The number of rounds by the arrivals of chunks.
fn bursts(arrivals: &[f64]) -> f64 {
    let gaps = arrivals.windows(2).map(|two| two[1] - two[0]);
    let mean = gaps.clone().sum::<f64>() / gaps.len().max(1) as f64;
    1.0 + gaps.filter(|gap| *gap > ONE_ROUND * mean).count() as f64
}
