//! Requests to the hub: what a commit holds, how long and with which hash, and the bytes.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use super::failure::{Failure, patiently};
use super::promise::{Promise, header};
use super::{Revision, is_true};
use crate::error::Error;
use crate::model::hub::cache::HubCache;

/// The hub, unless `HF_ENDPOINT` names another server.
const ENDPOINT: &str = "https://huggingface.co";
/// Variables that name a file with certificates.
const CERTIFICATES: [&str; 2] = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"];
/// The most redirects of one request.
const MOST_REDIRECTS: usize = 8;
/// The largest list of files that is read, in bytes.
const MOST_LIST: u64 = 64 << 20;
/// How long a connection may take, and how long a server may stay silent.
const CONNECT: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(60);

/// The hub and how to ask it.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// A request method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// The headers alone.
    Head,
    /// The content from this byte on.
    Get(u64),
}

impl Client {
    /// A client for `HF_ENDPOINT` with the token of `HF_TOKEN` or of the token file; proxies
    /// and certificates are those of the usual variables.
    ///
    /// # Errors
    /// If `HF_ENDPOINT` is no address, or the file with certificates holds none.
    pub(super) fn of_environment() -> Result<Self, Error> {
        let endpoint = env::var("HF_ENDPOINT").ok().filter(|text| !text.is_empty());
        let endpoint = endpoint.unwrap_or_else(|| ENDPOINT.to_owned());
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            let what = format!("HF_ENDPOINT \"{endpoint}\" does not begin with https://");
            return Err(Error::setting(what));
        }
        let tls = TlsConfig::builder().root_certs(trusted()?).build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .user_agent(concat!("specdec/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE));
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        Ok(Self { agent: config.build().new_agent(), endpoint, token: token() })
    }

    /// The address of the hub.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The address of a file.
    pub(super) fn url_of(&self, repo: &str, commit: &str, path: &str) -> String {
        format!("{}/{repo}/resolve/{commit}/{}", self.endpoint, encoded(path, "/"))
    }

    /// The commit and the files of a revision.
    ///
    /// # Errors
    /// A clause that says why they are not known.
    pub(super) fn revision(&self, repo: &str, revision: &str) -> Result<Revision, String> {
        let url = format!("{}/api/models/{repo}/revision/{}", self.endpoint, encoded(revision, ""));
        patiently(|| {
            let mut response = self.send(Ask::Get(0), &url)?;
            let read = response.body_mut().with_config().limit(MOST_LIST).read_to_vec();
            let bytes = read.map_err(of_client)?;
            serde_json::from_slice(&bytes)
                .map_err(|e| Failure::Lasting(format!("its list of files cannot be read: {e}")))
        })
    }

    /// The length and hash of a file.
    ///
    /// # Errors
    /// A clause that says why they are not known.
    pub(super) fn promise(&self, repo: &str, commit: &str, path: &str) -> Result<Promise, String> {
        let url = self.url_of(repo, commit, path);
        let response = patiently(|| self.send(Ask::Head, &url));
        let response = response.map_err(|what| format!("{path}: {what}"))?;
        Promise::of(response.headers(), response.status().is_redirection())
            .ok_or_else(|| format!("{path}: it states no hash of the file"))
    }

    /// The content of a file from byte `start` on, or from the beginning.
    ///
    /// # Errors
    /// If the file does not come.
    pub(super) fn get(&self, url: &str, start: u64) -> Result<Response<Body>, Failure> {
        self.send(Ask::Get(start), url)
    }

    /// Sends a request and follows redirects. A redirect to another server ends a request
    /// for headers: those of the hub itself describe the file.
    fn send(&self, method: Ask, url: &str) -> Result<Response<Body>, Failure> {
        let mut url = url.to_owned();
        for _ in 0..MOST_REDIRECTS {
            let response = self.send_once(method, &url)?;
            let status = response.status();
            if !status.is_redirection() {
                return self.checked(response);
            }
            let to = header(response.headers(), "location").unwrap_or_default();
            let target = if to.starts_with('/') && !to.starts_with("//") {
                format!("{}{to}", origin(&url))
            } else {
                to.to_owned()
            };
            if !target.starts_with("http://") && !target.starts_with("https://") {
                return Err(Failure::Lasting(format!("it redirects to \"{to}\"")));
            }
            if method == Ask::Head && origin(&target) != origin(&url) {
                return Ok(response);
            }
            url = target;
        }
        Err(Failure::Lasting(format!("it redirects more than {MOST_REDIRECTS} times")))
    }

    fn send_once(&self, method: Ask, url: &str) -> Result<Response<Body>, Failure> {
        let mut request = match method {
            Ask::Head => self.agent.head(url),
            Ask::Get(_) => self.agent.get(url),
        };
        if let Ask::Get(start @ 1..) = method {
            request = request.header("range", format!("bytes={start}-"));
        }
        // No other server is told the token.
        if let Some(token) = self.token.as_ref().filter(|_| origin(url) == origin(&self.endpoint)) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.call().map_err(of_client)
    }

    /// A response that is no refusal.
    fn checked(&self, response: Response<Body>) -> Result<Response<Body>, Failure> {
        let status = response.status().as_u16();
        let code = header(response.headers(), "x-error-code").unwrap_or_default();
        let lasting = |what: &str| Err(Failure::Lasting(format!("{what} (status {status})")));
        match (status, code) {
            (200..=299 | 416, _) => Ok(response),
            (401 | 403, _) | (_, "GatedRepo") if self.token.is_some() => lasting(
                "the token may not read it: accept its terms on its page, or take the token of an \
                 account that may",
            ),
            (401 | 403, _) | (_, "GatedRepo") => {
                lasting("it does not exist, or needs a token: check the name, or set HF_TOKEN")
            }
            (404, "RevisionNotFound") => lasting("there is no such revision"),
            (404, "EntryNotFound") => lasting("there is no such file"),
            (404, _) => lasting("there is no such repository"),
            (408 | 429 | 500..=599, _) => {
                let what = if status == 429 { "too many requests" } else { "it has a fault" };
                let wait = header(response.headers(), "retry-after").and_then(|s| s.parse().ok());
                let what = format!("{what} (status {status})");
                Err(Failure::Passing(what, wait.map(Duration::from_secs)))
            }
            _ => lasting("it refuses"),
        }
    }
}

/// Scheme and host of an address.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    &url[..url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at)]
}

/// A text as part of an address; `keep` are characters that stay, besides plain ones.
fn encoded(text: &str, keep: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c) || keep.contains(c);
    text.chars().fold(String::new(), |mut text, c| {
        match c {
            c if plain(c) => text.push(c),
            c => {
                let mut bytes = [0; 4];
                c.encode_utf8(&mut bytes);
                bytes[..c.len_utf8()].iter().for_each(|byte| text += &format!("%{byte:02X}"));
            }
        }
        text
    })
}

/// The failure behind an error of the HTTP client.
fn of_client(error: ureq::Error) -> Failure {
    use ureq::Error as E;
    match error {
        // As for a certificate that is not trusted.
        E::Io(e) if e.kind() == ErrorKind::InvalidData => Failure::Lasting(e.to_string()),
        E::Io(_)
        | E::Timeout(_)
        | E::HostNotFound
        | E::ConnectionFailed
        | E::Protocol(_)
        | E::ConnectProxyFailed(_)
        | E::BodyStalled => Failure::Passing(error.to_string(), None),
        error => Failure::Lasting(error.to_string()),
    }
}

/// Mozilla's certificates, or those of the file that a variable names: a company's proxy may
/// need its own.
fn trusted() -> Result<RootCerts, Error> {
    let file = CERTIFICATES.into_iter().find_map(|key| env::var_os(key).filter(|f| !f.is_empty()));
    let Some(file) = file.map(PathBuf::from) else { return Ok(RootCerts::WebPki) };
    let text = fs::read(&file).map_err(|e| Error::file(&file, e))?;
    let items = parse_pem(&text).filter_map(Result::ok);
    let roots = items.filter_map(|item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    let roots = roots.collect::<Vec<_>>();
    match roots.is_empty() {
        true => Err(Error::file(&file, "holds no certificates")),
        false => Ok(RootCerts::from(roots)),
    }
}

/// The token of `HF_TOKEN`, or of the file in which the hub's own tools keep it.
fn token() -> Option<String> {
    if env::var("HF_HUB_DISABLE_IMPLICIT_TOKEN").is_ok_and(|value| is_true(&value)) {
        return None;
    }
    let variable = |key| env::var(key).ok();
    let file = env::var_os("HF_TOKEN_PATH").map(PathBuf::from).or_else(HubCache::token_file);
    let token = variable("HF_TOKEN")
        .or_else(|| variable("HUGGING_FACE_HUB_TOKEN"))
        .or_else(|| fs::read_to_string(file?).ok())?;
    Some(token.trim().to_owned()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_an_address_is_its_scheme_and_host() {
        for url in ["http://a:1", "http://a:1/", "http://a:1/b/c", "http://a:1?b", "http://a:1#b"] {
            assert_eq!(origin(url), "http://a:1");
        }
        assert_ne!(origin("http://a.example"), origin("http://a.example.org/"));
        assert_ne!(origin("http://a:1/"), origin("http://a:2/"));
        assert_ne!(origin("http://a/"), origin("https://a/"));
    }

    #[test]
    fn revisions_and_paths_are_encoded() {
        assert_eq!(encoded("refs/pr/3", ""), "refs%2Fpr%2F3");
        assert_eq!(encoded("a/b+c.gguf", "/"), "a/b%2Bc.gguf");
        assert_eq!(encoded("ä", ""), "%C3%A4");
    }
}
