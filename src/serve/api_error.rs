//! Errors as OpenAI's protocol has them.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::core::error::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiError {
    status: StatusCode,
    message: String,
}

impl ApiError {
    pub(super) fn bad(message: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn new(status: StatusCode, message: impl std::fmt::Display) -> Self {
        Self { status, message: message.to_string() }
    }

    pub(super) fn full(queue: usize) -> Self {
        let message = format!("{queue} completions wait already, the maximum: try again later");
        Self::new(StatusCode::TOO_MANY_REQUESTS, message)
    }

    pub(super) fn ending() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down")
    }

    pub(super) fn late() -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "the completion took longer than the server allows")
    }

    /// As the body of a response or of an event.
    pub(super) fn body(&self) -> Value {
        let kind = match self.status.as_u16() {
            400..500 => "invalid_request_error",
            _ => "server_error",
        };
        json!({"error": {
            "message": self.message,
            "type": kind,
            "param": null,
            "code": self.status.as_u16(),
        }})
    }
}

impl From<Error> for ApiError {
    /// What the client can mend is a wrong request, all else the server's fault. Clients do not
    /// see where the server's files lie.
    fn from(error: Error) -> Self {
        const OWN_FAULT: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
        match error {
            Error::File { why, .. } => Self::new(OWN_FAULT, why),
            Error::Engine(_) | Error::Distribution { .. } => Self::new(OWN_FAULT, error),
            _ => Self::bad(error),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (self.status, body, self.body().to_string()).into_response();
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, 1.into());
        }
        response
    }
}
