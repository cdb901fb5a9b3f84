//! `POST /v1/chat/completions`.

use serde_json::Value;

use super::ServeLimits;
use super::api_error::ApiError;
use super::fields::{Fields, refused};
use super::job::SentPrompt;
use super::response::{ClientRequest, RequestKind};
use crate::model::ChatMessage;

const MOST_MESSAGES: usize = 1024;

pub(super) fn read(mut fields: Fields, limits: &ServeLimits) -> Result<ClientRequest, ApiError> {
    let mut options = fields.options(limits)?;
    let most = limits.tokens.unwrap_or(usize::MAX);
    let [old, new] = ["max_tokens", "max_completion_tokens"].map(|name| fields.count(name, most));
    options.max_tokens = new?.or(old?);
    let top = fields.logprobs("top_logprobs", limits)?;
    if fields.flag("logprobs")? {
        options.logprobs = Some(top.unwrap_or_default());
    } else if let Some(top) = top {
        return Err(refused("top_logprobs", &top.into(), "none without \"logprobs\": true"));
    }
    let allowed = "a list of 1 to 1024 messages with role and content, which is text";
    let sent = fields.take::<Value>("messages", allowed)?.unwrap_or_default();
    if !sent.as_array().is_some_and(|sent| (1..=MOST_MESSAGES).contains(&sent.len())) {
        return Err(refused("messages", &sent, allowed));
    }
    let messages = ChatMessage::read_all("messages", &sent).map_err(ApiError::bad)?;
    let prompt = SentPrompt::Chat(messages);
    ClientRequest::new(RequestKind::Chat, vec![prompt], options, fields)
}
