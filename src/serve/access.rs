//! Who may send requests: clients that know the key and call the server by its own name.
//!
//! A web page from elsewhere can make the browser of someone who can reach the server send it
//! requests. They name the page's host: as `Origin`, or as `Host` if the owner of a name points it
//! at the server (DNS rebinding). Their content type is not JSON unless the server agrees to it,
//! which it never does.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::api_error::ApiError;
use super::state::ServerState;

/// Refuses clients without the key.
pub(super) async fn with_key(
    State(server): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(key) = &server.settings.api_key else { return next.run(request).await };
    if has_key(request.headers(), key) {
        return next.run(request).await;
    }
    let message = "send the key of this server: Authorization: Bearer KEY";
    ApiError::new(StatusCode::UNAUTHORIZED, message).into_response()
}

/// Compares all bytes of keys of one length, however early they differ.
fn has_key(headers: &HeaderMap, key: &str) -> bool {
    let sent = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let Some(sent) = sent.and_then(|sent| sent.strip_prefix(b"Bearer ")) else { return false };
    let differ = sent.iter().zip(key.as_bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    sent.len() == key.len() && differ == 0
}

/// Refuses requests that name another host.
pub(super) async fn from_own_name(
    State(server): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    match check_hosts(request.uri(), request.headers(), &server.settings.allowed_hosts) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Checks `Host`, which browsers always send, and `Origin`. An IP address as `Host` cannot be
/// pointed elsewhere; as `Origin` it may be anyone's.
fn check_hosts(uri: &Uri, headers: &HeaderMap, allowed: &[String]) -> Result<(), ApiError> {
    let is_named = |host: &str| host == "localhost" || allowed.iter().any(|own| own == host);
    let authorities = headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    let authorities = authorities.chain(uri.authority().map(|own| own.as_str().as_bytes()));
    let mut hosts = Vec::new();
    for authority in authorities {
        let host = host_of(authority);
        let is_own = |host: &String| is_named(host) || host.parse::<IpAddr>().is_ok();
        hosts.push(host.filter(is_own).ok_or_else(|| refusal("Host", authority, "IP addresses"))?);
    }
    for origin in headers.get_all(header::ORIGIN).iter().map(HeaderValue::as_bytes) {
        let scheme = origin.windows(3).position(|part| part == b"://");
        let host = scheme.and_then(|at| host_of(&origin[at + 3..]));
        let is_loopback = |host: &str| host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        let is_own = |host: &String| is_named(host) || is_loopback(host) || hosts.contains(host);
        host.filter(is_own).ok_or_else(|| refusal("Origin", origin, "the server's own address"))?;
    }
    Ok(())
}

/// The host of `host:port`, in lower case and without the brackets of IPv6.
fn host_of(authority: &[u8]) -> Option<String> {
    let authority = Authority::try_from(authority).ok()?;
    Some(authority.host().trim_matches(['[', ']']).to_ascii_lowercase())
}

fn refusal(header: &str, value: &[u8], allowed: &str) -> ApiError {
    let value = crate::io::shown::line(&String::from_utf8_lossy(value));
    let message = format!(
        "the header {header} is {value}: allowed are {allowed}, localhost, and the names that the \
         server was started with (--allow-host NAME)"
    );
    ApiError::new(StatusCode::FORBIDDEN, message)
}

/// Refuses bodies that a page could send without the server's consent.
pub(super) fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let sent = headers.get(header::CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    let kind = sent.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if kind.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let sent = crate::io::shown::line(&String::from_utf8_lossy(sent));
    let message = format!("the header Content-Type is \"{sent}\": allowed is application/json");
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
}
