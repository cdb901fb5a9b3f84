//! Responses that are streamed as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::{iter, poll_fn};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::job::{CompletionEvent, PartialCompletion};
use super::response::{ClientRequest, ResponseHead};

/// A stream of chunks, with the event that came before it began, if one did. A comment is sent
/// whenever it has been silent for `keep_alive`.
pub(super) fn streamed(
    request: ClientRequest,
    head: ResponseHead,
    first: Option<CompletionEvent>,
    mut events: UnboundedReceiver<CompletionEvent>,
    keep_alive: Duration,
) -> Response {
    // The tokens that were sent already, for the usage.
    let sent = vec![PartialCompletion::default(); request.completions()];
    let at = vec![0; sent.len()];
    let mut chunks = StreamChunks { request, head, sent, at, ended: 0 };
    let events = iter(first).chain(poll_fn(move |context| events.poll_recv(context)));
    let events = events.flat_map(move |event| iter(chunks.next(event)));
    let stream = Sse::new(events.map(Ok::<_, Infallible>));
    stream.keep_alive(KeepAlive::new().interval(keep_alive)).into_response()
}

/// What has been sent of a response.
struct StreamChunks {
    request: ClientRequest,
    head: ResponseHead,
    sent: Vec<PartialCompletion>,
    /// The characters in the tokens that were sent.
    at: Vec<usize>,
    ended: usize,
}

impl StreamChunks {
    /// What is sent when something has happened to a completion.
    fn next(&mut self, (index, new): CompletionEvent) -> Vec<Event> {
        let Self { request, head, sent, at, ended } = self;
        let new = match new {
            Ok(new) => new,
            Err(error) => return vec![data(&error.body())],
        };
        sent[index].prompt = sent[index].prompt.take().or_else(|| new.prompt.clone());
        sent[index].part.tokens.extend_from_slice(&new.part.tokens);
        let mut chunk = request.chunk(head, index, &new, &mut at[index]);
        if request.continuous_usage {
            chunk["usage"] = request.usage(sent);
        }
        let mut chunks = vec![data(&chunk)];
        sent[index].end.clone_from(&new.end);
        *ended += usize::from(new.end.is_some());
        if new.end.is_some() && *ended == sent.len() {
            chunks.extend(request.include_usage.then(|| data(&request.usage_chunk(head, sent))));
            chunks.push(Event::default().data("[DONE]"));
        }
        chunks
    }
}

fn data(value: &Value) -> Event {
    Event::default().data(value.to_string())
}
