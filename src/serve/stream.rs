//! Answers that are streamed as server-sent events.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt};

use super::answer::{AnswerHead, GatheredText, TextsRequest};
use super::job::TextEvent;

/// A stream of parts. Its first event came before, so that a request that fails at once gets a
/// status of its own.
pub(super) fn streamed(
    asked: TextsRequest,
    head: AnswerHead,
    first: (usize, TextEvent),
    events: UnboundedReceiver<(usize, TextEvent)>,
) -> Response {
    let events = tokio_stream::once(first).chain(UnboundedReceiverStream::new(events));
    let mut response = Response::new(Body::from_stream(parts(asked, head, events)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn parts(
    asked: TextsRequest,
    head: AnswerHead,
    events: impl Stream<Item = (usize, TextEvent)>,
) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
    // What was told of each text already, for the usage.
    let mut texts = vec![GatheredText::default(); asked.texts()];
    let mut ended = 0;
    events.map(move |(index, event)| {
        let mut new = GatheredText::default();
        if let Err(error) = new.add(event) {
            return Ok(data(&error.body()));
        }
        texts[index].begun = texts[index].begun.take().or_else(|| new.begun.clone());
        texts[index].part.tokens.extend_from_slice(&new.part.tokens);
        let mut text = data(&asked.chunk(&head, index, &new)).to_vec();
        if new.ended.is_some() {
            ended += 1;
            if ended == texts.len() {
                if asked.include_usage {
                    text.extend(data(&asked.usage_chunk(&head, &texts)));
                }
                text.extend(b"data: [DONE]\n\n");
            }
        }
        Ok(text.into())
    })
}

fn data(value: &Value) -> Bytes {
    format!("data: {value}\n\n").into()
}
