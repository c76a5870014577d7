//! `GET /healthz` and `GET /readyz`.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::timeout;

use app::{error::Code, schema};
use chains::readiness::Cause;

use super::state::HttpState;
use crate::error::ApiError;

/// Longest time readiness is looked into.
const CHECK_MAX: Duration = Duration::from_secs(2);

/// How the process is.
// Body of both probes.
#[derive(Serialize, JsonSchema)]
pub(super) struct Health {
    /// `ok`, `ready`, or `starting` while what the gateway depends on is not there yet.
    status: &'static str,
    /// What an operator has to look into although the gateway is ready; absent when there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    alarms: Vec<String>,
    /// The chains served, in order of their ids; only of the readiness probe. One that is not ready does not make the gateway so:
    /// what goes through it is refused with `CHAIN_UNAVAILABLE`, and all else goes on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    chains: Vec<ChainHealth>,
}

/// Whether new payments may go through a chain.
#[derive(Serialize, JsonSchema)]
pub(super) struct ChainHealth {
    /// CAIP-2 id of the chain.
    #[schemars(regex(pattern = schema::CHAIN_ID_PATTERN))]
    chain_id: String,
    /// Whether they may.
    ready: bool,
    /// Why they may not: `node_silent`, `node_stalled`, `other_chain`, `contract_missing` or `contract_unreadable`, and others in
    /// times to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
    /// The same for humans; may be reworded.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

/// The process answers.
pub(super) async fn live() -> Json<Health> {
    Json(Health { status: "ok", alarms: Vec::new(), chains: Vec::new() })
}

/// The process answers, and waits for what it depends on.
pub(super) async fn starting() -> Json<Health> {
    Json(Health { status: "starting", alarms: Vec::new(), chains: Vec::new() })
}

fn chains(state: &HttpState) -> Vec<ChainHealth> {
    let chains = state.services.chains.all();
    let health = chains.map(|(chain_id, cause)| ChainHealth {
        chain_id: chain_id.to_string(),
        ready: cause.is_none(),
        cause: cause.map(Cause::name),
        message: cause.map(Cause::text),
    });
    health.collect()
}

/// The gateway serves: reads, and new payments over the chains that are ready.
pub(super) async fn ready(State(state): State<Arc<HttpState>>) -> Result<Json<Health>, ApiError> {
    let not_ready = |missing: &str| ApiError::new(Code::NOT_READY, missing);
    let alarms = state.services.readiness.alarms();
    match timeout(CHECK_MAX, state.services.readiness.check()).await {
        Ok(Ok(())) => Ok(Json(Health { status: "ready", alarms, chains: chains(&state) })),
        Ok(Err(missing)) => Err(not_ready(&[vec![missing], alarms].concat().join("; "))),
        Err(_) => Err(not_ready("the check did not end in time")),
    }
}
