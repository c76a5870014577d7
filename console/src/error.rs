//! Why the console does not answer, and how it says so.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use projections::Unavailable;

/// Longest message, in characters.
const MESSAGE_CHARS_MAX: usize = 1_000;
/// When to come again, in seconds.
const RETRY_AFTER: &str = "1";

/// Why the console does not do what it is asked for. Operators are told why: they have the log as well.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nobody's token is shown. It is not said what is wrong with it.
    #[error("an operator's token is needed")]
    Unauthorized,
    /// The operator may not do that, or the request comes from a page of elsewhere.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The request breaks a rule, which the text names with its field.
    #[error("{0}")]
    Invalid(String),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(&'static str),
    /// Somebody who is asked does not answer for now.
    #[error("{0}")]
    Unavailable(String),
    /// As much is under way as may be.
    #[error("as much is under way as may be; nothing was begun; try again")]
    TooBusy,
    /// The path has other methods.
    #[error("the path has other methods, see Allow")]
    MethodNotAllowed,
    /// It was tried, and failed.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "UNAUTHORIZED"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "FORBIDDEN"),
            Self::Invalid(_) => (StatusCode::BAD_REQUEST, "INVALID_REQUEST"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            Self::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
            Self::TooBusy => (StatusCode::TOO_MANY_REQUESTS, "TOO_BUSY"),
            Self::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "FAILED"),
        }
    }
}

impl From<Unavailable> for Error {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(format!("read models: {unavailable}"))
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        let message: String = self.to_string().chars().take(MESSAGE_CHARS_MAX).collect();
        let mut response = (status, Json(json!({"error": {"code": code, "message": message}}))).into_response();
        let headers = response.headers_mut();
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
            }
            _ => {}
        }
        response
    }
}
