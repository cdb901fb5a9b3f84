//! OpenAI's `/v1/chat/completions` with `logprobs`: tokens by their bytes, without ids. The request
//! has the prompt: messages, or `prompt` if they were rendered before.

use anyhow::Result;
use serde_json::Value;

use super::logged::{
    LoggedLine, LoggedSequence, LoggedToken, bytes, exchange, ids, list, log_prob, text,
};
use super::{TapeFormat, TapeReader};

pub(super) const FORMAT: TapeFormat = TapeFormat {
    name: "openai",
    summary: "responses of /v1/chat/completions with logprobs; the request must be logged, too",
    read: TapeReader::Lines(read),
};

fn read(line: &Value) -> Result<LoggedLine> {
    let (request, response) = exchange(line);
    let choice = |choice: &Value| {
        let content = choice.get("logprobs").and_then(|logs| logs.get("content"));
        let tokens = content.and_then(Value::as_array).map_or(&[][..], Vec::as_slice).iter();
        let token = |token: &Value| {
            Ok(LoggedToken {
                id: None,
                bytes: bytes(token.get("bytes"), token.get("token")),
                log_prob: log_prob(token.get("logprob"))?,
            })
        };
        Ok(LoggedSequence {
            prompt_tokens: ids(request.get("prompt"))?,
            prompt: text(request.get("prompt")),
            request: request.get("messages").map(|_| request.clone()),
            tokens: tokens.map(token).collect::<Result<_>>()?,
            text: text(choice.get("message").and_then(|message| message.get("content"))),
            stopped: choice.get("finish_reason").and_then(Value::as_str) == Some("stop"),
            ..LoggedSequence::default()
        })
    };
    Ok(list(response, "choices")?.iter().map(choice).collect::<Result<Vec<_>>>()?.into())
}
