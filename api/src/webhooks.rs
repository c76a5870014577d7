//! `/v1/webhooks`: endpoints that owners of payments have called, each with the token of a session.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use app::{
    error::Code,
    sessions,
    webhooks::{self, KeysBody},
};

use super::{sessions::NO_STORE, state::HttpState, write::Write};
use crate::error::ApiError;

type Id = Result<Path<String>, PathRejection>;

/// The id in a path; one that cannot be read is nobody's.
fn id(path: Id) -> Result<String, ApiError> {
    path.map(|Path(id)| id).map_err(|_| Code::WEBHOOK_NOT_FOUND.into())
}

/// An answer that is of one caller alone.
fn answer<T: Serialize>(answered: Result<T, ApiError>) -> Response {
    let mut response = answered.map(Json).into_response();
    let is_unproven = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    let (cache_control, no_store) = NO_STORE;
    headers.insert(cache_control, no_store);
    headers.insert(header::VARY, HeaderValue::from_static("authorization"));
    if is_unproven {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Registers an endpoint.
pub(super) async fn register(State(state): State<Arc<HttpState>>, write: Write) -> Response {
    let Write { headers, body, permit, .. } = write;
    let registered = async {
        let owner = sessions::fresh_owner(&state, &headers)?;
        Ok(webhooks::register(&state, &owner, &body.json()?).await?)
    };
    let registered = Box::pin(registered).await;
    drop(permit);
    answer(registered)
}

/// The caller's webhooks.
pub(super) async fn list(State(state): State<Arc<HttpState>>, headers: HeaderMap) -> Response {
    let listed = async {
        let owner = sessions::owner(&state, &headers)?;
        Ok(webhooks::list(&state, &owner).await?)
    };
    answer(listed.await)
}

/// The keys that messages are verified with; anybody may ask for them.
pub(super) async fn keys(State(state): State<Arc<HttpState>>) -> Result<Json<KeysBody>, ApiError> {
    Ok(Json(webhooks::keys(&state)?))
}

/// How one of them stands.
pub(super) async fn show(State(state): State<Arc<HttpState>>, headers: HeaderMap, path: Id) -> Response {
    let shown = async {
        let owner = sessions::owner(&state, &headers)?;
        Ok(webhooks::show(&state, &owner, &id(path)?).await?)
    };
    answer(shown.await)
}

/// Deletes one of them.
pub(super) async fn delete(State(state): State<Arc<HttpState>>, headers: HeaderMap, path: Id) -> Response {
    let deleted = async {
        let owner = sessions::owner(&state, &headers)?;
        Ok(webhooks::delete(&state, &owner, &id(path)?).await?)
    };
    answer(deleted.await)
}

/// Has messages of one of them delivered again.
pub(super) async fn redeliver(State(state): State<Arc<HttpState>>, path: Id, write: Write) -> Response {
    let Write { caller, headers, body, permit, .. } = write;
    let redelivered = async {
        let owner = sessions::owner(&state, &headers)?;
        Ok(webhooks::redeliver(&state, &caller, &owner, &id(path)?, &body.json()?).await?)
    };
    let redelivered = Box::pin(redelivered).await;
    drop(permit);
    answer(redelivered)
}
