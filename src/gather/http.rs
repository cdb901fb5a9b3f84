//! Requests to a server, with retries.

use std::io::{BufRead, BufReader};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body, RequestBuilder};

/// Maximum number of attempts for a request, and the first pause between two; it doubles each time.
const MAX_ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(250);
/// Maximum pause that a server may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(120);
/// Maximum length of an answer, in bytes.
const MAX_ANSWER: u64 = 64 << 20;
/// Time limits for connecting, for an answer to begin, and for a body.
const CONNECT: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct HttpServer {
    pub(super) url: String,
    pub(super) model: Option<String>,
    key: Option<String>,
    agent: Agent,
}

/// Why a request failed.
struct NoAnswer {
    why: anyhow::Error,
    /// Whether to retry, and after which pause, if the server named one.
    again: Option<Option<Duration>>,
}

impl HttpServer {
    /// A server at an address.
    pub(super) fn new(url: &str, key: Option<&str>) -> Result<Self> {
        Self::within(ANSWER, url, key)
    }

    /// A server of which each answer must begin, and its body end, within a time.
    fn within(limit: Duration, url: &str, key: Option<&str>) -> Result<Self> {
        let url = url.trim_end_matches('/');
        let secure = url.starts_with("https://");
        if !secure && !url.starts_with("http://") {
            bail!("{url:?} is not a server: allowed is an address like http://localhost:8000");
        }
        if secure && !cfg!(feature = "https") {
            bail!("{url}: https needs a program that was built with --features https");
        }
        let config = Agent::config_builder()
            .user_agent(concat!("specdec/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT))
            .timeout_send_body(Some(limit))
            .timeout_recv_response(Some(limit))
            .timeout_recv_body(Some(limit));
        let (agent, key) = (config.build().new_agent(), key.map(str::to_owned));
        Ok(Self { url: url.to_owned(), model: None, key, agent })
    }

    /// The JSON at a path.
    pub(super) fn get(&self, path: &str) -> Result<Value> {
        with_retries(|| read_json(self.send(path, None)?))
    }

    /// The text at a path, without retries.
    pub(super) fn get_text(&self, path: &str) -> Result<String> {
        let read = self.send(path, None).and_then(read);
        read.map_err(|no_answer| no_answer.why)
    }

    /// What `read` finds in the answer to a request.
    pub(super) fn ask<T>(
        &self,
        path: &str,
        body: &Value,
        read: fn(&Value) -> Result<T>,
    ) -> Result<T> {
        let answer = self.post(path, body)?;
        read(&answer).map_err(|error| {
            let text = answer.to_string().chars().take(200).collect::<String>();
            anyhow!("{error:#}; the answer begins with {}", crate::io::shown::line(&text))
        })
    }

    /// The answer to a request.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let body = body.to_string();
        with_retries(|| read_json(self.send(path, Some(&body))?))
    }

    /// Sends a request without retries, and calls `see` with each event of its stream on arrival.
    pub(super) fn stream(
        &self,
        path: &str,
        body: &Value,
        mut see: impl FnMut(Value) -> Result<()>,
    ) -> Result<()> {
        let sent = self.send(path, Some(&body.to_string()));
        let response = sent.map_err(|no_answer| no_answer.why)?;
        let reader = response.into_body().into_with_config().limit(MAX_ANSWER).reader();
        for line in BufReader::new(reader).lines() {
            let line = line?;
            let Some(data) = line.strip_prefix("data:").map(str::trim) else { continue };
            if data == "[DONE]" {
                break;
            }
            let event = serde_json::from_str::<Value>(data);
            let event = event.map_err(|error| anyhow!("an event is not JSON: {error}"))?;
            if let Some(error) = event.get("error") {
                bail!("it sends an error: {}", crate::io::shown::line(&error.to_string()));
            }
            see(event)?;
        }
        Ok(())
    }

    fn authorised<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.key {
            Some(key) => request.header("Authorization", format!("Bearer {key}")),
            None => request,
        }
    }

    fn send(&self, path: &str, body: Option<&str>) -> Result<Response<Body>, NoAnswer> {
        let url = format!("{}{path}", self.url);
        let sent = match body {
            None => self.authorised(self.agent.get(&url)).call(),
            Some(body) => {
                let request = self.agent.post(&url).header("Content-Type", "application/json");
                self.authorised(request).send(body)
            }
        };
        let response = sent.map_err(|error| NoAnswer { why: error.into(), again: Some(None) })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let wait = response.headers().get("retry-after");
        let wait = wait.and_then(|wait| wait.to_str().ok()?.parse().ok()).map(Duration::from_secs);
        let may_pass = status.is_server_error() || status.as_u16() == 429;
        let said = read(response).unwrap_or_default().chars().take(400).collect::<String>();
        let why = anyhow!("it answers with status {status}: {}", crate::io::shown::line(&said));
        Err(NoAnswer { why, again: may_pass.then_some(wait) })
    }
}

fn read(mut response: Response<Body>) -> Result<String, NoAnswer> {
    let text = response.body_mut().with_config().limit(MAX_ANSWER).read_to_string();
    text.map_err(|error| NoAnswer { why: error.into(), again: Some(None) })
}

fn read_json(response: Response<Body>) -> Result<Value, NoAnswer> {
    let text = read(response)?;
    let why = |error| NoAnswer { why: anyhow!("its answer is not JSON: {error}"), again: None };
    serde_json::from_str(&text).map_err(why)
}

/// Repeats a request as long as that may help.
fn with_retries<T>(mut ask: impl FnMut() -> Result<T, NoAnswer>) -> Result<T> {
    let mut attempts = 0;
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(NoAnswer { again: Some(wait), .. }) if attempts + 1 < MAX_ATTEMPTS => {
                sleep(wait.map_or(PAUSE * 2_u32.pow(attempts), |wait| wait.min(MAX_PAUSE)));
            }
            Err(NoAnswer { why, .. }) => return Err(why),
        }
        attempts += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::spawn;
    use std::time::Instant;

    use super::*;

    /// Catches: a server that sends a body without end is waited for, without end.
    #[test]
    fn a_body_has_a_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let _ = stream.read(&mut [0; 4096]);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").unwrap();
            while stream.write_all(b" ").is_ok() {
                sleep(Duration::from_millis(20));
            }
        });
        let server = HttpServer::within(Duration::from_millis(300), &url, None).unwrap();
        let (begun, error) = (Instant::now(), server.get_text("/").unwrap_err().to_string());
        assert!(error.contains("timeout"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
