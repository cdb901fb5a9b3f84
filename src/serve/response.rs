//! A request as it was read, and the responses to it in OpenAI's shapes.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::ServeSettings;
use super::api_error::ApiError;
use super::fields::{Fields, refused};
use super::job::{
    CompletionEvent, CompletionJob, CompletionOptions, NamedLogprob, PartialCompletion,
    PrefilledPrompt, ReadPrompt, SentPrompt, TokenLogprobs,
};
use crate::core::sampling::Controls;
use crate::method::controls::ControlRequest;
use crate::method::decode::StopReason;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Continues prompts.
    Completion {
        /// The prompt comes before the completion.
        echo: bool,
        /// Tokens in log-probabilities are `token_id:N`.
        tokens_as_ids: bool,
    },
    /// Answers messages.
    Chat,
}

#[derive(Debug, Clone)]
pub(super) struct ClientRequest {
    kind: RequestKind,
    pub(super) prompts: Vec<SentPrompt>,
    options: CompletionOptions,
    /// The name of the model that it is for, if it names one.
    pub(super) model: Option<String>,
    /// Completions of each prompt.
    n: usize,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// Whether every chunk of a stream has the usage so far.
    pub(super) continuous_usage: bool,
    token_ids: bool,
}

/// What all objects of a response have.
#[derive(Debug, Clone)]
pub(super) struct ResponseHead {
    id: String,
    created: u64,
    model: String,
}

impl ClientRequest {
    /// Takes the fields that are left.
    pub(super) fn new(
        kind: RequestKind,
        prompts: Vec<SentPrompt>,
        options: CompletionOptions,
        mut fields: Fields,
    ) -> Result<Self, ApiError> {
        let stream = fields.flag("stream")?;
        let stream_options = fields.take::<Map<String, Value>>("stream_options", "an object")?;
        let (mut include_usage, mut continuous_usage) = (false, false);
        for (name, value) in stream_options.into_iter().flatten() {
            let allowed = "an object of include_usage and continuous_usage_stats, true or false";
            match (name.as_str(), value) {
                ("include_usage", Value::Bool(include)) => include_usage = include,
                ("continuous_usage_stats", Value::Bool(include)) => continuous_usage = include,
                (_, value) => return Err(refused("stream_options", &value, allowed)),
            }
        }
        let request = Self {
            kind,
            prompts,
            options,
            stream,
            include_usage,
            // As in vLLM: only with the other.
            continuous_usage: continuous_usage && include_usage,
            model: fields.take("model", "a string")?,
            n: fields.n()?,
            token_ids: fields.flag("return_token_ids")?,
        };
        fields.end()?;
        Ok(request)
    }

    pub(super) fn completions(&self) -> usize {
        self.prompts.len() * self.n
    }

    /// What its completions may be, as it says it.
    pub(super) fn controls(&self) -> &ControlRequest {
        &self.options.controls
    }

    /// The completions to be generated; `prompts` are its prompts in tokens, and `controls` has those
    /// of each completion.
    pub(super) fn jobs(
        &self,
        prompts: &[ReadPrompt],
        controls: Vec<Controls>,
        deadline: Instant,
        events: &UnboundedSender<CompletionEvent>,
    ) -> impl Iterator<Item = CompletionJob> {
        controls.into_iter().enumerate().map(move |(index, controls)| {
            let mut options = self.options.clone();
            options.sampling.controls = controls;
            CompletionJob {
                index,
                repeat: (index % self.n) as u32,
                prompt: prompts[index / self.n].clone(),
                options,
                deadline,
                events: events.clone(),
            }
        })
    }

    pub(super) fn whole(&self, head: &ResponseHead, completions: &[PartialCompletion]) -> Value {
        let choices = completions.iter().enumerate().map(|(index, completion)| {
            let mut choice = self.choice(index, completion, &mut 0);
            if self.kind == RequestKind::Chat {
                choice["message"] = json!({"role": "assistant", "content": completion.part.text});
            }
            choice
        });
        let mut response = head.object(self.object(false));
        response["choices"] = choices.collect();
        response["usage"] = self.usage(completions);
        response["seed"] = self.options.seed.into();
        add_metrics(&mut response, completions);
        response
    }

    /// A chunk of a stream: `new` has what the completion got since the chunk before, whose tokens
    /// ended at the character `at` of the text.
    pub(super) fn chunk(
        &self,
        head: &ResponseHead,
        index: usize,
        new: &PartialCompletion,
        at: &mut usize,
    ) -> Value {
        let mut choice = self.choice(index, new, at);
        if self.kind == RequestKind::Chat {
            choice["delta"] = json!({"content": new.part.text});
            if new.prompt.is_some() {
                choice["delta"]["role"] = "assistant".into();
            }
        }
        let mut chunk = head.object(self.object(true));
        chunk["choices"] = json!([choice]);
        if let Some(end) = new.end.as_ref().filter(|_| self.completions() == 1) {
            chunk["metrics"] = json!({"speculative_decoding": end.speculation});
        }
        chunk
    }

    /// The last chunk of a stream, for requests with `include_usage`.
    pub(super) fn usage_chunk(
        &self,
        head: &ResponseHead,
        completions: &[PartialCompletion],
    ) -> Value {
        let mut chunk = head.object(self.object(true));
        chunk["choices"] = json!([]);
        chunk["usage"] = self.usage(completions);
        add_metrics(&mut chunk, completions);
        chunk
    }

    fn object(&self, chunk: bool) -> &'static str {
        match (self.kind, chunk) {
            (RequestKind::Completion { .. }, _) => "text_completion",
            (RequestKind::Chat, false) => "chat.completion",
            (RequestKind::Chat, true) => "chat.completion.chunk",
        }
    }

    /// A choice without its message. Its tokens begin at the character `at` of its text.
    fn choice(&self, index: usize, completion: &PartialCompletion, at: &mut usize) -> Value {
        let mut choice = json!({
            "index": index,
            "finish_reason": completion.end.as_ref().map(|end| finish_reason(end.reason)),
            "logprobs": self.options.logprobs.map(|_| self.logprobs(completion, at)),
        });
        if self.token_ids {
            choice["token_ids"] = completion.part.tokens.clone().into();
        }
        if let Some(prompt) = &completion.prompt {
            if self.token_ids {
                choice["prompt_token_ids"] = prompt.tokens.clone().into();
            }
            if self.options.prompt_logprobs.is_some() {
                choice["prompt_logprobs"] = prompt_logprobs(prompt);
            }
        }
        if let RequestKind::Completion { echo, .. } = self.kind {
            let prompt = completion.prompt.as_ref().filter(|_| echo);
            let prompt = prompt.map_or("", |prompt| &prompt.text);
            choice["text"] = (prompt.to_owned() + &completion.part.text).into();
        }
        choice
    }

    fn logprobs(&self, completion: &PartialCompletion, at: &mut usize) -> Value {
        let RequestKind::Completion { echo, tokens_as_ids } = self.kind else {
            let content = completion.part.logprobs.iter().map(|found| {
                let mut own = with_bytes(&found.own);
                own["top_logprobs"] = found.top.iter().map(with_bytes).collect();
                own
            });
            return json!({"content": content.collect::<Vec<_>>()});
        };
        let name = |named: &NamedLogprob| match tokens_as_ids {
            true => format!("token_id:{}", named.token),
            false => named.name.clone(),
        };
        let prompt = completion.prompt.as_ref().filter(|_| echo);
        let first = prompt.map(|prompt| &prompt.first);
        let of_prompt = prompt.and_then(|prompt| prompt.logprobs.as_ref()).into_iter().flatten();
        let all = of_prompt.chain(&completion.part.logprobs).collect::<Vec<_>>();
        let top = |found: &&TokenLogprobs| {
            let own = [&found.own].into_iter().chain(&found.top);
            let named = own.map(|named| (name(named), json!(named.logprob)));
            Value::Object(named.collect())
        };
        let named = first.into_iter().chain(all.iter().map(|found| &found.own));
        let unknown = || first.map(|_| Value::Null).into_iter();
        let own = unknown().chain(all.iter().map(|found| json!(found.own.logprob)));
        let top = unknown().chain(all.iter().map(top));
        json!({
            "tokens": named.clone().map(name).collect::<Vec<_>>(),
            "token_logprobs": own.collect::<Vec<_>>(),
            "top_logprobs": top.collect::<Vec<_>>(),
            "text_offset": named.map(|named| offset(named, at)).collect::<Vec<_>>(),
        })
    }

    pub(super) fn usage(&self, completions: &[PartialCompletion]) -> Value {
        let prompt = |one: &PartialCompletion| one.prompt.as_ref().map_or(0, |p| p.tokens.len());
        let prompts = completions.iter().step_by(self.n).map(prompt).sum::<usize>();
        let generated = completions.iter().map(|one| one.part.tokens.len()).sum::<usize>();
        json!({
            "prompt_tokens": prompts,
            "completion_tokens": generated,
            "total_tokens": prompts + generated,
        })
    }
}

/// Adds what speculation did. As in vLLM: only for requests of one completion.
fn add_metrics(response: &mut Value, completions: &[PartialCompletion]) {
    if let [PartialCompletion { end: Some(end), .. }] = completions {
        response["metrics"] = json!({"speculative_decoding": end.speculation});
    }
}

/// The character of the text in which a token begins, after tokens in which `at` have begun.
fn offset(named: &NamedLogprob, at: &mut usize) -> usize {
    let begins = |byte: &u8| !(0x80..0xC0).contains(byte);
    let is_inside = named.bytes.first().is_some_and(|byte| !begins(byte));
    let offset = at.saturating_sub(usize::from(is_inside));
    *at += named.bytes.iter().filter(|byte| begins(byte)).count();
    offset
}

/// In vLLM's form: null for the first token, then tokens by id.
fn prompt_logprobs(prompt: &PrefilledPrompt) -> Value {
    let of = |found: &TokenLogprobs| {
        let numbered = |(rank, named): (usize, &NamedLogprob)| {
            let entry = json!({
                "logprob": named.logprob,
                "rank": rank,
                "decoded_token": named.name,
            });
            (named.token.to_string(), entry)
        };
        let top = (1..).zip(&found.top).map(numbered);
        Value::Object(top.chain([numbered((found.rank, &found.own))]).collect())
    };
    [Value::Null].into_iter().chain(prompt.logprobs.iter().flatten().map(of)).collect()
}

fn with_bytes(named: &NamedLogprob) -> Value {
    json!({"token": named.name, "logprob": named.logprob, "bytes": named.bytes})
}

pub(super) fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Eos | StopReason::StopToken | StopReason::StopString | StopReason::User => {
            "stop"
        }
        StopReason::MaxTokens | StopReason::ContextFull | StopReason::Deadline => "length",
    }
}

impl ResponseHead {
    /// Of request number `number`.
    pub(super) fn new(settings: &ServeSettings, number: u64) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id: format!("cmpl-{number}"),
            created: since.as_secs(),
            model: settings.model.clone(),
        }
    }

    fn object(&self, object: &str) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
        })
    }
}
