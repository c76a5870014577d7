//! `GET /healthz` and `GET /readyz`.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::timeout;

use app::error::Code;

use super::state::HttpState;
use crate::error::ApiError;

/// Longest time readiness is looked into.
const CHECK_MAX: Duration = Duration::from_secs(2);

/// How the process is.
// Body of both probes.
#[derive(Serialize, JsonSchema)]
pub(super) struct Health {
    /// `ok`, or `ready`.
    status: &'static str,
    /// What an operator has to look into although the gateway is ready; absent when there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    alarms: Vec<String>,
}

/// The process answers.
pub(super) async fn live() -> Json<Health> {
    Json(Health { status: "ok", alarms: Vec::new() })
}

/// The gateway can take payments.
pub(super) async fn ready(State(state): State<Arc<HttpState>>) -> Result<Json<Health>, ApiError> {
    let not_ready = |missing: &str| ApiError::new(Code::NOT_READY, missing);
    let alarms = state.services.readiness.alarms();
    match timeout(CHECK_MAX, state.services.readiness.check()).await {
        Ok(Ok(())) => Ok(Json(Health { status: "ready", alarms })),
        Ok(Err(missing)) => Err(not_ready(&[vec![missing], alarms].concat().join("; "))),
        Err(_) => Err(not_ready("the check did not end in time")),
    }
}
