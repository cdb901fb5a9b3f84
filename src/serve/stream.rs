//! Answers that are streamed as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::{iter, poll_fn};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::answer::{AnswerHead, GatheredText, TextsRequest};
use super::job::TextEvent;

/// A stream of chunks, with the event that came before it began, if one did. A comment is sent
/// whenever it has been silent for `keep_alive`.
pub(super) fn streamed(
    asked: TextsRequest,
    head: AnswerHead,
    first: Option<(usize, TextEvent)>,
    mut events: UnboundedReceiver<(usize, TextEvent)>,
    keep_alive: Duration,
) -> Response {
    // The tokens that were sent already, for the usage.
    let texts = vec![GatheredText::default(); asked.texts()];
    let mut chunks = StreamChunks { asked, head, texts, ended: 0 };
    let events = iter(first).chain(poll_fn(move |context| events.poll_recv(context)));
    let sent = events.flat_map(move |(index, event)| iter(chunks.next(index, event)));
    let stream = Sse::new(sent.map(Ok::<_, Infallible>));
    stream.keep_alive(KeepAlive::new().interval(keep_alive)).into_response()
}

/// What has been sent of an answer.
struct StreamChunks {
    asked: TextsRequest,
    head: AnswerHead,
    texts: Vec<GatheredText>,
    ended: usize,
}

impl StreamChunks {
    /// What is sent when something has happened to a text.
    fn next(&mut self, index: usize, event: TextEvent) -> Vec<Event> {
        let Self { asked, head, texts, ended } = self;
        let mut new = GatheredText::default();
        if let Err(error) = new.add(event) {
            return vec![data(&error.body())];
        }
        texts[index].begun = texts[index].begun.take().or_else(|| new.begun.clone());
        texts[index].part.tokens.extend_from_slice(&new.part.tokens);
        let mut sent = vec![data(&asked.chunk(head, index, &new))];
        *ended += usize::from(new.ended.is_some());
        if new.ended.is_some() && *ended == texts.len() {
            sent.extend(asked.include_usage.then(|| data(&asked.usage_chunk(head, texts))));
            sent.push(Event::default().data("[DONE]"));
        }
        sent
    }
}

fn data(value: &Value) -> Event {
    Event::default().data(value.to_string())
}
