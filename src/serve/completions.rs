//! `POST /v1/completions`.

use serde_json::Value;

use super::ServeLimits;
use super::answer::{AskedShape, TextsRequest};
use super::api_error::ApiError;
use super::fields::{Fields, refused};
use super::job::SentPrompt;
use crate::distribution::Token;

/// What the protocol makes of a request that does not say it.
const MAX_TOKENS: usize = 16;

/// The most prompts of a request.
const MOST_PROMPTS: usize = 128;

/// What a request asks for.
///
/// # Errors
/// If a field is unknown or has a value that it cannot have.
pub(super) fn asked(mut fields: Fields, limits: &ServeLimits) -> Result<TextsRequest, ApiError> {
    let mut wanted = fields.wanted(limits)?;
    let most = limits.tokens.unwrap_or(usize::MAX);
    let max_tokens = fields.count("max_tokens", most)?;
    wanted.max_tokens = Some(max_tokens.unwrap_or(MAX_TOKENS.min(most)));
    wanted.logprobs = fields.logprobs("logprobs", limits)?;
    let echo = fields.flag("echo")?;
    if echo && wanted.prompt_logprobs.is_none() {
        wanted.prompt_logprobs = wanted.logprobs;
    }
    let prompt = fields.take::<Value>("prompt", "a text, tokens, or a list of these")?;
    let prompts = prompts(prompt.unwrap_or_default())?;
    let shape =
        AskedShape::Completion { echo, tokens_as_ids: fields.flag("return_tokens_as_token_ids")? };
    TextsRequest::new(shape, prompts, wanted, fields)
}

/// The prompts of a request: one text, one list of tokens, or a list of either.
fn prompts(prompt: Value) -> Result<Vec<SentPrompt>, ApiError> {
    let allowed = "a text, a list of token ids, or a list of up to 128 of either";
    let wrong = |prompt: &Value| refused("prompt", prompt, allowed);
    let one = |prompt: &Value| match prompt {
        Value::String(text) => Some(SentPrompt::Text(text.clone())),
        Value::Array(ids) if !ids.is_empty() => {
            ids.iter().map(id).collect::<Option<_>>().map(SentPrompt::Tokens)
        }
        _ => None,
    };
    if let Some(prompt) = one(&prompt) {
        return Ok(vec![prompt]);
    }
    let Value::Array(all) = &prompt else { return Err(wrong(&prompt)) };
    if all.is_empty() || all.len() > MOST_PROMPTS {
        return Err(wrong(&prompt));
    }
    all.iter().map(one).collect::<Option<_>>().ok_or_else(|| wrong(&prompt))
}

fn id(value: &Value) -> Option<Token> {
    value.as_u64().and_then(|id| Token::try_from(id).ok())
}
