//! Another cluster's genesis hash: clients that know the public clusters alone take the runtime for one of them.

use std::sync::Arc;

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::Runtime;

/// What the endpoint claims, and who answers all else.
struct Claim {
    runtime: Arc<Runtime>,
    genesis_hash: String,
}

/// Answers what comes to `listener` as the runtime does, but for the genesis hash.
pub(super) async fn serve(listener: TcpListener, runtime: Arc<Runtime>, genesis_hash: String) -> std::io::Result<()> {
    let claim = Arc::new(Claim { runtime, genesis_hash });
    axum::serve(listener, Router::new().fallback(answer).with_state(claim)).await
}

async fn answer(State(claim): State<Arc<Claim>>, Json(call): Json<Value>) -> impl IntoResponse {
    if call.get("method").and_then(Value::as_str) == Some("getGenesisHash") {
        let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": claim.genesis_hash});
        return Json(answer).into_response();
    }
    let Runtime { http, url } = claim.runtime.as_ref();
    let asked = async { http.post(url).json(&call).send().await?.json::<Value>().await };
    match asked.await {
        Ok(answer) => Json(answer).into_response(),
        // As from a node that is not there.
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
