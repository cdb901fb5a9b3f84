//! What is served where.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::mpsc::{Sender, unbounded_channel};
use tokio::time::timeout;

use super::access::{check_type, from_own_name, with_key};
use super::api_error::ApiError;
use super::connections::{ConnectionLimits, accept_all};
use super::fields::Fields;
use super::job::{CompletionJob, PartialCompletion};
use super::meters::Meters;
use super::prompts::PromptReader;
use super::response::{ClientRequest, ResponseHead};
use super::state::ServerState;
use super::stream::streamed;
use super::{ServeLimits, ServeSettings, chat, completions};

/// Names the known-wrong method in every response of a server that has one.
pub const MUTANT_HEADER: &str = "x-specdec-mutant";

/// How long a client may take to send the body of a request.
const BODY_TIME: Duration = Duration::from_secs(10);

/// How a kind of request is read.
type ReadRequest = fn(Fields, &ServeLimits) -> Result<ClientRequest, ApiError>;

/// Accepts connections until the process is interrupted and its last request has been served.
pub(super) fn listen(
    listener: TcpListener,
    jobs: Sender<CompletionJob>,
    settings: ServeSettings,
    meters: Meters,
    prompts: PromptReader,
) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    let runtime = runtime.context("cannot start the runtime of the connections")?;
    let limits = ConnectionLimits::of(&settings.limits);
    let server = Arc::new(ServerState::new(jobs, settings, meters, prompts));
    runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let router = router(Arc::clone(&server));
        accept_all(listener, router, limits, shutdown_requested(server)).await;
        Ok(())
    })
}

fn router(server: Arc<ServerState>) -> Router {
    Router::new()
        .route(
            "/v1/completions",
            post(|server, request| respond(server, request, completions::read)),
        )
        .route("/v1/chat/completions", post(|server, request| respond(server, request, chat::read)))
        .route("/v1/models", get(models))
        .route("/metrics", get(metrics))
        .layer(from_fn_with_state(Arc::clone(&server), with_key))
        .route("/health", get(health))
        .fallback(|| async { ApiError::new(StatusCode::NOT_FOUND, "there is no such path here") })
        .method_not_allowed_fallback(|| async {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this path has another method")
        })
        .layer(from_fn_with_state(Arc::clone(&server), from_own_name))
        .layer(from_fn_with_state(Arc::clone(&server), counted))
        .with_state(server)
}

/// Waits for an interrupt. The second one ends the process.
async fn shutdown_requested(server: Arc<ServerState>) {
    interrupted().await;
    server.ending.store(true, Ordering::Relaxed);
    crate::io::terminal::say("ending: open requests are still served; repeat to end at once");
    tokio::spawn(async {
        interrupted().await;
        std::process::exit(130);
    });
}

/// Waits for Ctrl-C or SIGTERM.
async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    // Without a handler the system ends the process.
    let _ = tokio::signal::ctrl_c().await;
}

/// Counts responses, and marks those of a known-wrong method.
async fn counted(State(server): State<Arc<ServerState>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    server.meters.responded(response.status().as_u16());
    if let Some(mutant) = server.settings.mutant {
        response.headers_mut().insert(MUTANT_HEADER, HeaderValue::from_static(mutant));
    }
    response
}

fn as_json(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn health(State(server): State<Arc<ServerState>>) -> Response {
    if server.ending.load(Ordering::Relaxed) || server.jobs.is_closed() {
        return ApiError::ending().into_response();
    }
    let busy = server.meters.pulse.busy();
    if let Some(stuck) = busy.filter(|&busy| busy > server.settings.limits.time) {
        let message = format!("the models have not ended a step for {} s", stuck.as_secs());
        return ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message).into_response();
    }
    let engine = if busy.is_some() { "running" } else { "waiting" };
    as_json(&json!({"status": "ok", "engine": engine, "mutant": server.settings.mutant}))
}

async fn models(State(server): State<Arc<ServerState>>) -> Response {
    let model = json!({
        "id": server.settings.model,
        "object": "model",
        "created": 0,
        "owned_by": "specdec",
        "mutant": server.settings.mutant,
    });
    as_json(&json!({"object": "list", "data": [model]}))
}

async fn metrics(State(server): State<Arc<ServerState>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], server.meters.encoded()).into_response()
}

async fn respond(
    State(server): State<Arc<ServerState>>,
    request: Request,
    read: ReadRequest,
) -> Response {
    match response_to(&server, request, read).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn response_to(
    server: &ServerState,
    request: Request,
    read: ReadRequest,
) -> Result<Response, ApiError> {
    let ServeSettings { limits, model, .. } = &server.settings;
    check_type(request.headers())?;
    let body = timeout(BODY_TIME, to_bytes(request.into_body(), limits.body)).await;
    let body = body.map_err(|_| {
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body of the request did not come")
    })?;
    let body = body.map_err(|_| {
        let message = format!("the body is cut, or longer than {} bytes, the maximum", limits.body);
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    })?;
    let request = read(Fields::of(&body)?, limits)?;
    if request.model.as_ref().is_some_and(|name| name != model) {
        let message = format!("there is no such model here: its name is {model}");
        return Err(ApiError::new(StatusCode::NOT_FOUND, message));
    }
    if server.ending.load(Ordering::Relaxed) {
        return Err(ApiError::ending());
    }
    let count = request.completions();
    if count > limits.queue {
        let message = format!("{count} completions at once: {} may wait", limits.queue);
        return Err(ApiError::bad(message));
    }
    let places = server.jobs.try_reserve_many(count);
    let places = places.map_err(|_| ApiError::full(limits.queue))?;
    let deadline = Instant::now() + limits.time;
    let mut prompts = Vec::with_capacity(request.prompts.len());
    for prompt in &request.prompts {
        prompts.push(server.prompts.read(prompt.clone(), deadline).await?);
    }
    let controls = server.prompts.controls(request.controls().clone(), count, deadline).await?;
    let (sender, mut events) = unbounded_channel();
    for (place, job) in places.zip(request.jobs(&prompts, controls, deadline, &sender)) {
        place.send(job);
    }
    drop(sender);
    let head = ResponseHead::new(&server.settings, server.requests.fetch_add(1, Ordering::Relaxed));
    if request.stream {
        // A request that fails at once has a status of its own; one that waits has a stream.
        return match timeout(server.keep_alive, events.recv()).await {
            Ok(None) => Err(ApiError::ending()),
            Ok(Some((_, Err(error)))) => Err(error),
            first => Ok(streamed(request, head, first.ok().flatten(), events, server.keep_alive)),
        };
    }
    let mut completions = vec![PartialCompletion::default(); count];
    while let Some((index, new)) = events.recv().await {
        completions[index].add(new?);
    }
    if completions.iter().any(|one| one.end.is_none()) {
        return Err(ApiError::ending());
    }
    Ok(as_json(&request.whole(&head, &completions)))
}

#[cfg(test)]
mod tests {
    //! Real connections. The tests stand in for the engine.

    use std::future::pending;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::mpsc::{Receiver, channel};

    use super::super::job::{CompletionEnd, CompletionPart, NamedLogprob, PrefilledPrompt};
    use super::super::speculation::Speculation;
    use super::super::{LogprobsMode, MetricNames};
    use super::*;
    use crate::method::decode::StopReason;
    use crate::model::{LanguageModel, Letters, zoo};

    fn settings() -> ServeSettings {
        ServeSettings {
            address: ([127, 0, 0, 1], 0).into(),
            model: "model".to_owned(),
            api_key: None,
            allowed_hosts: Vec::new(),
            mutant: None,
            logprobs: LogprobsMode::Raw,
            metrics: MetricNames::Own,
            limits: ServeLimits {
                slots: 1,
                queue: 1,
                body: 1024,
                tokens: None,
                time: Duration::from_secs(60),
                logprobs: 0,
                vocab: 1,
            },
        }
    }

    /// A server, and the jobs of its requests, one of which may wait.
    fn started(keep_alive: Duration) -> (Runtime, SocketAddr, Receiver<CompletionJob>) {
        let (jobs, queue) = channel(1);
        let (settings, runtime) = (settings(), Builder::new_multi_thread().enable_all().build());
        let runtime = runtime.unwrap();
        let limits = ConnectionLimits::of(&settings.limits);
        let (meters, toy) = (Meters::new(&settings), zoo::toy("thirds").unwrap());
        let target = toy.target("model").unwrap().info().clone();
        let prompts = PromptReader::new(Arc::new(Letters { vocab: 1 }), target);
        let server = ServerState::new(jobs, settings, meters, prompts);
        let server = ServerState { keep_alive, ..server };
        let bound = tokio::net::TcpListener::bind(server.settings.address);
        let listener = runtime.block_on(bound).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(accept_all(listener, router(Arc::new(server)), limits, pending()));
        (runtime, address, queue)
    }

    /// A connection that has sent a request for a stream.
    fn requested(address: SocketAddr) -> TcpStream {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let body = r#"{"prompt": "a", "stream": true}"#;
        let head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                    Content-Type: application/json\r\n";
        write!(client, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        client
    }

    /// All of the response to a streamed request, whose job `engine` gets with the connection.
    fn streamed(
        keep_alive: Duration,
        engine: impl FnOnce(CompletionJob, &mut TcpStream) -> String,
    ) -> String {
        let (_runtime, address, mut queue) = started(keep_alive);
        let mut client = requested(address);
        let begin = engine(queue.blocking_recv().unwrap(), &mut client);
        let mut rest = String::new();
        client.read_to_string(&mut rest).unwrap();
        begin + &rest
    }

    /// What is read until a comment has come.
    fn until_comment(client: &mut TcpStream) -> String {
        let (mut read, mut part) = (String::new(), [0; 1024]);
        while !read.contains("\r\n:\n\n") {
            let length = client.read(&mut part).expect("there is no comment");
            assert!(length > 0, "the response ended: {read}");
            read += std::str::from_utf8(&part[..length]).unwrap();
        }
        read
    }

    #[test]
    fn a_silent_stream_is_kept_alive() {
        let response = streamed(Duration::from_millis(20), |job, client| {
            let begin = until_comment(client);
            let (name, bytes) = ("a".to_owned(), b"a".to_vec());
            let first = NamedLogprob { token: 0, bytes, name: name.clone(), logprob: 0.0 };
            let begun = PrefilledPrompt { tokens: vec![0], first, logprobs: None, text: name };
            let part =
                CompletionPart { text: "b".to_owned(), tokens: vec![1], logprobs: Vec::new() };
            let ended =
                CompletionEnd { reason: StopReason::MaxTokens, speculation: Speculation::new(1) };
            let nothing = PartialCompletion::default;
            for new in [
                PartialCompletion { prompt: Some(begun), ..nothing() },
                PartialCompletion { part, ..nothing() },
                PartialCompletion { end: Some(ended), ..nothing() },
            ] {
                job.events.send((job.index, Ok(new))).unwrap();
            }
            begin
        });
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(response.contains("content-type: text/event-stream\r\n"), "{response}");
        let (before, after) = response.split_once("data: ").unwrap();
        assert!(before.contains(":\n\n"), "{response}");
        assert!(
            after.contains("\"text\":\"b\"") && after.contains("data: [DONE]\n\n"),
            "{response}"
        );
    }

    #[test]
    fn a_late_failure_is_in_the_stream() {
        let response = streamed(Duration::from_millis(20), |job, client| {
            let begin = until_comment(client);
            job.events.send((0, Err(ApiError::late()))).unwrap();
            begin
        });
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(response.contains("data: {\"error\":{\"message\""), "{response}");
    }

    /// As long as the engine does not take a job, the next request is refused.
    /// Catches: requests wait without limit.
    #[test]
    fn a_full_queue_refuses() {
        let (_runtime, address, mut queue) = started(Duration::from_millis(1));
        let mut waiting = requested(address);
        // Its stream has begun, so that it waits.
        assert!(waiting.read(&mut [0; 1]).unwrap() > 0);
        let mut response = String::new();
        requested(address).read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 429 "), "{response}");
        assert!(response.contains("retry-after: 1\r\n"), "{response}");
        // The engine sees that a client has gone.
        let job = queue.blocking_recv().unwrap();
        drop(waiting);
        while !job.events.is_closed() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
