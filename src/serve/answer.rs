//! What a request asks for, and answers in OpenAI's shapes.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::ServeSettings;
use super::api_error::ApiError;
use super::fields::{Fields, refused};
use super::job::{
    BegunText, EndedText, NamedLogprob, RoundText, SentPrompt, TextEvent, TextJob, TextOptions,
    TokenLogprobs,
};
use crate::decode::StopReason;

/// The kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AskedShape {
    /// A continuation.
    Completion {
        /// With its prompt.
        echo: bool,
        /// Tokens in log-probabilities are `token_id:N`.
        tokens_as_ids: bool,
    },
    /// A message.
    Chat,
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct TextsRequest {
    shape: AskedShape,
    prompts: Vec<SentPrompt>,
    wanted: TextOptions,
    /// The name of the model that it is for, if it names one.
    pub(super) model: Option<String>,
    /// Texts of each prompt.
    n: usize,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    token_ids: bool,
}

/// A text as far as it is there.
#[derive(Debug, Clone, Default)]
pub(super) struct GatheredText {
    pub(super) begun: Option<BegunText>,
    pub(super) part: RoundText,
    pub(super) ended: Option<EndedText>,
}

/// The head of all objects that answer a request.
#[derive(Debug, Clone)]
pub(super) struct AnswerHead {
    id: String,
    created: u64,
    model: String,
}

impl TextsRequest {
    /// Takes what is left of the fields.
    ///
    /// # Errors
    /// If one is unknown or has a value that it cannot have.
    pub(super) fn new(
        shape: AskedShape,
        prompts: Vec<SentPrompt>,
        wanted: TextOptions,
        mut fields: Fields,
    ) -> Result<Self, ApiError> {
        let stream = fields.flag("stream")?;
        let options = fields.take::<Map<String, Value>>("stream_options", "an object")?;
        let mut include_usage = false;
        for (name, value) in options.into_iter().flatten() {
            let allowed = "{\"include_usage\": true or false}";
            match (name.as_str(), value) {
                ("include_usage", Value::Bool(include)) => include_usage = include,
                (_, value) => return Err(refused("stream_options", &value, allowed)),
            }
        }
        let asked = Self {
            shape,
            prompts,
            wanted,
            stream,
            include_usage,
            model: fields.take("model", "a text")?,
            n: fields.texts()?,
            token_ids: fields.flag("return_token_ids")?,
        };
        fields.end()?;
        Ok(asked)
    }

    /// The number of texts.
    pub(super) fn texts(&self) -> usize {
        self.prompts.len() * self.n
    }

    /// Its texts as jobs.
    pub(super) fn jobs(
        &self,
        deadline: Instant,
        events: &UnboundedSender<(usize, TextEvent)>,
    ) -> impl Iterator<Item = TextJob> {
        (0..self.texts()).map(move |index| TextJob {
            index,
            repeat: (index % self.n) as u32,
            prompt: self.prompts[index / self.n].clone(),
            wanted: self.wanted.clone(),
            deadline,
            events: events.clone(),
        })
    }

    /// The whole answer.
    pub(super) fn whole(&self, head: &AnswerHead, texts: &[GatheredText]) -> Value {
        let choices = texts.iter().enumerate().map(|(index, text)| {
            let mut choice = self.choice(index, text);
            match self.shape {
                AskedShape::Completion { .. } => {
                    choice["text"] = (self.prompt_text(text).to_owned() + &text.part.text).into();
                }
                AskedShape::Chat => {
                    choice["message"] = json!({"role": "assistant", "content": text.part.text});
                }
            }
            choice
        });
        let mut answer = head.object(self.object(false));
        answer["choices"] = choices.collect();
        answer["usage"] = self.usage(texts);
        answer["seed"] = self.wanted.seed.into();
        // As vLLM has it: only for requests of one text.
        if let [GatheredText { ended: Some(ended), .. }] = texts {
            answer["metrics"] = json!({"speculative_decoding": ended.speculation});
        }
        answer
    }

    /// A part of a text that is streamed: `text` has what is new.
    pub(super) fn chunk(&self, head: &AnswerHead, index: usize, text: &GatheredText) -> Value {
        let mut choice = self.choice(index, text);
        match self.shape {
            AskedShape::Completion { .. } => {
                choice["text"] = (self.prompt_text(text).to_owned() + &text.part.text).into();
            }
            AskedShape::Chat => {
                let role = text.begun.is_some().then_some("assistant");
                let mut delta = json!({"content": text.part.text});
                if let Some(role) = role {
                    delta["role"] = role.into();
                }
                choice["delta"] = delta;
            }
        }
        let mut chunk = head.object(self.object(true));
        chunk["choices"] = json!([choice]);
        if let Some(ended) = text.ended.as_ref().filter(|_| self.texts() == 1) {
            chunk["metrics"] = json!({"speculative_decoding": ended.speculation});
        }
        chunk
    }

    /// The last part of a stream, if it is asked for.
    pub(super) fn usage_chunk(&self, head: &AnswerHead, texts: &[GatheredText]) -> Value {
        let mut chunk = head.object(self.object(true));
        chunk["choices"] = json!([]);
        chunk["usage"] = self.usage(texts);
        chunk
    }

    fn object(&self, chunk: bool) -> &'static str {
        match (self.shape, chunk) {
            (AskedShape::Completion { .. }, _) => "text_completion",
            (AskedShape::Chat, false) => "chat.completion",
            (AskedShape::Chat, true) => "chat.completion.chunk",
        }
    }

    fn prompt_text<'t>(&self, text: &'t GatheredText) -> &'t str {
        let echo = matches!(self.shape, AskedShape::Completion { echo: true, .. });
        text.begun.as_ref().filter(|_| echo).map_or("", |begun| &begun.text)
    }

    /// A choice without its text.
    fn choice(&self, index: usize, text: &GatheredText) -> Value {
        let mut choice = json!({
            "index": index,
            "finish_reason": text.ended.as_ref().map(|ended| finish(ended.reason)),
            "logprobs": self.wanted.logprobs.map(|_| self.logprobs(text)),
        });
        if self.token_ids {
            choice["token_ids"] = text.part.tokens.clone().into();
        }
        if let Some(begun) = &text.begun {
            if self.token_ids {
                choice["prompt_token_ids"] = begun.prompt.clone().into();
            }
            if self.wanted.prompt_logprobs.is_some() {
                choice["prompt_logprobs"] = prompt_logprobs(begun);
            }
        }
        choice
    }

    fn logprobs(&self, text: &GatheredText) -> Value {
        let AskedShape::Completion { echo, tokens_as_ids } = self.shape else {
            let content = text.part.logprobs.iter().map(|found| {
                let mut own = told(&found.own);
                own["top_logprobs"] = found.top.iter().map(told).collect();
                own
            });
            return json!({"content": content.collect::<Vec<_>>()});
        };
        let name = |named: &NamedLogprob| match tokens_as_ids {
            true => format!("token_id:{}", named.token),
            false => named.name.clone(),
        };
        let begun = text.begun.as_ref().filter(|_| echo);
        let first = begun.and_then(|begun| begun.prompt.first());
        let of_prompt = begun.and_then(|begun| begun.logprobs.as_ref()).into_iter().flatten();
        let all = of_prompt.chain(&text.part.logprobs).collect::<Vec<_>>();
        let top = |found: &&TokenLogprobs| {
            let own = [&found.own].into_iter().chain(&found.top);
            let named = own.map(|named| (name(named), json!(named.logprob)));
            Value::Object(named.collect())
        };
        let firsts = first.map(|token| format!("token_id:{token}"));
        let first = || first.map(|_| Value::Null).into_iter();
        let tokens = firsts.into_iter().chain(all.iter().map(|found| name(&found.own)));
        let own = first().chain(all.iter().map(|found| json!(found.own.logprob)));
        let top = first().chain(all.iter().map(top));
        let offsets = first().chain(offsets(&all));
        json!({
            "tokens": tokens.collect::<Vec<_>>(),
            "token_logprobs": own.collect::<Vec<_>>(),
            "top_logprobs": top.collect::<Vec<_>>(),
            "text_offset": offsets.collect::<Vec<_>>(),
        })
    }

    fn usage(&self, texts: &[GatheredText]) -> Value {
        let prompt = |text: &GatheredText| text.begun.as_ref().map_or(0, |own| own.prompt.len());
        let prompts = texts.iter().step_by(self.n).map(prompt).sum::<usize>();
        let generated = texts.iter().map(|text| text.part.tokens.len()).sum::<usize>();
        json!({
            "prompt_tokens": prompts,
            "completion_tokens": generated,
            "total_tokens": prompts + generated,
        })
    }
}

/// Where each token begins among the bytes of all.
fn offsets(all: &[&TokenLogprobs]) -> impl Iterator<Item = Value> {
    all.iter().scan(0, |end, found| {
        let begin = *end;
        *end += found.own.bytes.len();
        Some(json!(begin))
    })
}

/// vLLM's form: nothing for the first token, then tokens by id.
fn prompt_logprobs(begun: &BegunText) -> Value {
    let of = |found: &TokenLogprobs| {
        let numbered = |(rank, named): (usize, &NamedLogprob)| {
            let told = json!({
                "logprob": named.logprob,
                "rank": rank,
                "decoded_token": named.name,
            });
            (named.token.to_string(), told)
        };
        let top = (1..).zip(&found.top).map(numbered);
        Value::Object(top.chain([numbered((found.rank, &found.own))]).collect())
    };
    [Value::Null].into_iter().chain(begun.logprobs.iter().flatten().map(of)).collect()
}

fn told(named: &NamedLogprob) -> Value {
    json!({"token": named.name, "logprob": named.logprob, "bytes": named.bytes})
}

fn finish(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Eos | StopReason::StopString | StopReason::User => "stop",
        StopReason::MaxTokens | StopReason::ContextFull | StopReason::Deadline => "length",
    }
}

impl AnswerHead {
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

impl GatheredText {
    /// Adds what has happened; the text's failure, if it has failed.
    pub(super) fn add(&mut self, event: TextEvent) -> Result<(), ApiError> {
        match event {
            TextEvent::Begun(begun) => self.begun = Some(begun),
            TextEvent::Part(part) => {
                self.part.text += &part.text;
                self.part.tokens.extend(part.tokens);
                self.part.logprobs.extend(part.logprobs);
            }
            TextEvent::Ended(ended) => self.ended = Some(ended),
            TextEvent::Failed(error) => return Err(error),
        }
        Ok(())
    }
}
