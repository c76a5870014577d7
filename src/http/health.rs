//! `GET /healthz` and `GET /readyz`.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State};
use serde::Serialize;
use tokio::time::timeout;

use super::{
    error::{ApiError, Code},
    state::HttpState,
};

/// Longest time readiness is looked into.
const CHECK_MAX: Duration = Duration::from_secs(2);

/// Body of both probes.
#[derive(Serialize)]
pub(super) struct Health {
    status: &'static str,
}

/// The process answers.
pub(super) async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// The gateway can take payments.
pub(super) async fn ready(State(state): State<Arc<HttpState>>) -> Result<Json<Health>, ApiError> {
    let not_ready = |missing: &str| ApiError::new(Code::NOT_READY, missing);
    match timeout(CHECK_MAX, state.services.readiness.check()).await {
        Ok(Ok(())) => Ok(Json(Health { status: "ready" })),
        Ok(Err(missing)) => Err(not_ready(&missing)),
        Err(_) => Err(not_ready("the check did not end in time")),
    }
}
