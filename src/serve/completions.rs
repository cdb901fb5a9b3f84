//! `POST /v1/completions`.

use serde_json::Value;

use super::ServeLimits;
use super::api_error::ApiError;
use super::fields::{Fields, refused};
use super::job::SentPrompt;
use super::response::{ClientRequest, RequestKind};
use crate::core::distribution::Token;

/// The number of tokens of a completion without `max_tokens`, as in the protocol.
const MAX_TOKENS: usize = 16;

const MOST_PROMPTS: usize = 128;

pub(super) fn read(mut fields: Fields, limits: &ServeLimits) -> Result<ClientRequest, ApiError> {
    let mut options = fields.options(limits)?;
    let most = limits.tokens.unwrap_or(usize::MAX);
    options.max_tokens = fields.count("max_tokens", most)?;
    options.default_tokens = MAX_TOKENS.min(most);
    options.logprobs = fields.logprobs("logprobs", limits)?;
    let echo = fields.flag("echo")?;
    if echo && options.prompt_logprobs.is_none() {
        options.prompt_logprobs = options.logprobs;
    }
    let prompt = fields.take::<Value>("prompt", "a string, token ids, or a list of these")?;
    let prompts = prompts(prompt.unwrap_or_default())?;
    let kind =
        RequestKind::Completion { echo, tokens_as_ids: fields.flag("return_tokens_as_token_ids")? };
    ClientRequest::new(kind, prompts, options, fields)
}

/// The prompts of a request: one string, one list of tokens, or a list of either.
fn prompts(prompt: Value) -> Result<Vec<SentPrompt>, ApiError> {
    let allowed = "a string, a list of token ids, or a list of up to 128 of either";
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
