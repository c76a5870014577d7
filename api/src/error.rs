//! An error of the use cases as a response.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};

use app::error::{Code, Error};

/// An error on its way to the client. It becomes a body in the outermost layer, which knows the request's id and the
/// address of the service.
#[derive(Debug, Clone)]
pub struct ApiError(pub Error);

impl ApiError {
    /// An error with a message of its own; see [`Error::new`].
    pub fn new(code: &'static Code, message: impl Into<String>) -> Self {
        Self(Error::new(code, message))
    }

    /// The table's entry for a status that was answered without an error of ours, as by the framework.
    pub fn of_status(status: StatusCode) -> Self {
        Self(Error::of_status(status))
    }
}

impl<E: Into<Error>> From<E> for ApiError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.0.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}
