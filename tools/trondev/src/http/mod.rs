//! The HTTP API: one table of names, served under `/wallet/` for all blocks and under `/walletsolidity/` for the solidified
//! ones, and the development controls under `/dev/`.

mod abi;
mod accounts;
mod blocks;
mod contracts;
mod dev;
mod network;
mod read;
mod request;
mod shape;
mod transactions;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::State,
    http::{Method, Request as HttpRequest, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use self::request::{ApiError, Request};
use crate::chain::{Chain, ChainView};

/// A larger body is refused. The largest transaction, in hex and twice over, fits.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The handler of a method.
type Handler = fn(&Shared, &Request) -> Result<Value, ApiError>;

/// The chain, which one call at a time uses.
pub(crate) type Shared = Arc<Mutex<Chain>>;

pub(crate) use contracts::deployment;

/// The chain, to be used at once and let go. A panic elsewhere does not end the node: what it leaves half done is what
/// waits, which is made anew with the next block.
pub(crate) fn lock(chain: &Shared) -> MutexGuard<'_, Chain> {
    chain.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The routes.
pub(crate) fn router(chain: Shared) -> Router {
    Router::new().fallback(answer).with_state(chain)
}

/// The call of a name, and whether `/walletsolidity/` has it, too.
fn named(name: &str) -> Option<(Handler, bool)> {
    let (handler, solidified): (Handler, bool) = match name {
        "getnowblock" => (blocks::newest, true),
        "getblock" => (blocks::one, true),
        "getblockbynum" => (blocks::by_number, true),
        "getblockbyid" => (blocks::by_id, true),
        "getblockbylimitnext" => (blocks::range, true),
        "getblockbylatestnum" => (blocks::latest, true),
        "getaccount" => (accounts::account, true),
        "getaccountresource" => (accounts::resources, false),
        "getaccountnet" => (accounts::bandwidth, false),
        "validateaddress" => (accounts::validate, false),
        "createtransaction" => (transactions::transfer, false),
        "broadcasttransaction" => (transactions::broadcast, false),
        "broadcasthex" => (transactions::broadcast_hex, false),
        "gettransactionbyid" => (transactions::by_id, true),
        "gettransactioninfobyid" => (transactions::info_by_id, true),
        "gettransactioninfobyblocknum" => (transactions::info_by_block, true),
        "gettransactionfrompending" => (transactions::pending, false),
        "gettransactionlistfrompending" => (transactions::pending_list, false),
        "getpendingsize" => (transactions::pending_size, false),
        "getsignweight" => (transactions::sign_weight, false),
        "getapprovedlist" => (transactions::approved, false),
        "triggersmartcontract" => (contracts::trigger, false),
        "triggerconstantcontract" | "triggerconfirmedconstantcontract" => (contracts::trigger_constant, true),
        "estimateenergy" => (contracts::estimate, true),
        "deploycontract" => (contracts::deploy, false),
        "getcontract" => (contracts::contract, false),
        "getcontractinfo" => (contracts::contract_info, false),
        "getchainparameters" => (network::parameters, false),
        "getenergyprices" => (network::energy_prices, true),
        "getbandwidthprices" => (network::bandwidth_prices, true),
        "getnodeinfo" => (network::node_info, true),
        "listnodes" => (network::nodes, false),
        "listwitnesses" => (network::witnesses, true),
        "getnextmaintenancetime" => (network::maintenance, false),
        _ => return None,
    };
    Some((handler, solidified))
}

/// The handler of a path without a slash before it, and what it shows.
fn routed(path: &str) -> Option<(Handler, ChainView)> {
    let (root, name) = path.split_once('/')?;
    match (root, named(name)?) {
        ("wallet", (handler, _)) => Some((handler, ChainView::Head)),
        ("walletsolidity", (handler, true)) => Some((handler, ChainView::Solidified)),
        _ => None,
    }
}

/// The body of an answer. Tron's nodes answer 200 whatever happened, and clients look for the member.
fn told(answered: Result<Value, ApiError>, strings: bool) -> Value {
    let mut body = answered.unwrap_or_else(|error| error.body());
    if strings {
        shape::numbers_to_strings(&mut body);
    }
    body
}

/// The answer to a body that is posted to a path without a slash before it, for example `wallet/getblock`: status and body.
pub(crate) fn posted(chain: &Shared, path: &str, body: &[u8]) -> (StatusCode, Value) {
    let Some((handler, view)) = routed(path) else { return (StatusCode::NOT_FOUND, absent(path)) };
    let body = match Request::from_body(body, view) {
        Ok(request) => told(handler(chain, &request), request.int64_as_string()),
        Err(error) => error.body(),
    };
    (StatusCode::OK, body)
}

async fn answer(State(chain): State<Shared>, request: HttpRequest<Body>) -> Response {
    let path = request.uri().path().to_owned();
    let name = path.rsplit_once('/').map_or("", |(_, name)| name);
    if let Some(control) = path.trim_start_matches('/').strip_prefix("dev/") {
        return dev::answer(chain, control.to_owned(), request).await;
    }
    let Some((handler, view)) = routed(path.trim_start_matches('/')) else { return missing(&path) };
    // Broadcasting by a link would be an accident.
    let only_post = matches!(name, "broadcasttransaction" | "broadcasthex" | "createtransaction" | "deploycontract");
    if request.method() != Method::POST && (only_post || request.method() != Method::GET) {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let read = match read(request, view).await {
        Ok(read) => read,
        Err(error) => return Json(error.body()).into_response(),
    };
    let strings = read.int64_as_string();
    let answered = tokio::task::spawn_blocking(move || handler(&chain, &read)).await;
    match answered {
        Ok(answered) => Json(told(answered, strings)).into_response(),
        Err(error) => {
            tracing::error!(%error, path, "a call ended without an answer");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn read(request: HttpRequest<Body>, view: ChainView) -> Result<Request, ApiError> {
    if request.method() == Method::GET {
        return Request::from_query(request.uri().query().unwrap_or_default(), view);
    }
    let body = to_bytes(request.into_body(), BODY_BYTES_MAX).await;
    let body = body.map_err(|_| ApiError::new(format!("body size is too big, the limit is {BODY_BYTES_MAX}")))?;
    Request::from_body(&body, view)
}

fn absent(path: &str) -> Value {
    json!({ "Error": format!("{path} is not offered by this development node") })
}

fn missing(path: &str) -> Response {
    (StatusCode::NOT_FOUND, Json(absent(path))).into_response()
}
