//! HTTP API of the development controls, under a path that no network has.

use axum::{
    Json,
    body::{Body, to_bytes},
    http::{Method, Request as HttpRequest, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    BODY_BYTES_MAX, Shared, lock,
    request::{ApiError, Request, unhex},
};
use crate::{
    Address,
    chain::{Chain, ChainView, DevelopmentError},
};

/// Why a control refuses, with status 400.
#[derive(Debug, thiserror::Error)]
enum DevError {
    #[error(transparent)]
    Field(#[from] ApiError),
    #[error("{0}")]
    Missing(&'static str),
    #[error(transparent)]
    Refused(#[from] DevelopmentError),
}

pub(super) async fn answer(chain: Shared, name: String, request: HttpRequest<Body>) -> Response {
    let control: Control = match (name.as_str(), request.method()) {
        ("status", &Method::GET) => status,
        ("fund", &Method::POST) => fund,
        ("mine", &Method::POST) => mine,
        ("time", &Method::POST) => time,
        ("drop", &Method::POST) => drop_pending,
        ("pending", &Method::POST) => show_pending,
        ("fork", &Method::POST) => fork,
        ("code", &Method::POST) => code,
        ("status" | "fund" | "mine" | "time" | "drop" | "pending" | "fork" | "code", _) => {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        _ => return super::missing(&format!("/dev/{name}")),
    };
    let Ok(body) = to_bytes(request.into_body(), BODY_BYTES_MAX).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let done = tokio::task::spawn_blocking(move || {
        let request = Request::from_body(&body, ChainView::Head)?;
        let mut chain = lock(&chain);
        control(&mut chain, &request)
    })
    .await;
    match done {
        Ok(Ok(body)) => Json(body).into_response(),
        Ok(Err(error)) => (StatusCode::BAD_REQUEST, Json(json!({ "error": error.to_string() }))).into_response(),
        Err(error) => {
            tracing::error!(%error, name, "a control ended without an answer");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

type Control = fn(&mut Chain, &Request) -> Result<Value, DevError>;

fn status(chain: &mut Chain, _request: &Request) -> Result<Value, DevError> {
    let (head, solidified, pending) = chain.status();
    Ok(json!({
        "chain_id": chain.options.chain_id,
        "head": head,
        "head_id": chain.head().id.to_string(),
        "solidified": solidified,
        "pending": pending,
        "unix_ms": chain.now(),
    }))
}

/// Addresses are taken in either form here.
fn address(request: &Request) -> Result<Address, DevError> {
    let text = request.text("address").ok_or(DevError::Missing("`address` is needed"))?;
    text.parse().map_err(|error| ApiError::field("address", error).into())
}

fn amount(request: &Request, name: &str) -> Result<Option<u64>, DevError> {
    let Some(number) = request.number(name)? else { return Ok(None) };
    Ok(Some(u64::try_from(number).map_err(|_| ApiError::field(name, "must not be negative"))?))
}

fn fund(chain: &mut Chain, request: &Request) -> Result<Value, DevError> {
    let address = address(request)?;
    let sun = amount(request, "sun")?.ok_or(DevError::Missing("`sun` is needed"))?;
    chain.fund(address, sun)?;
    let balance = chain.state(ChainView::Head).get(address).map_or(0, |account| account.balance);
    Ok(json!({ "address": address.to_base58(), "balance": balance }))
}

fn mine(chain: &mut Chain, request: &Request) -> Result<Value, DevError> {
    let blocks = amount(request, "blocks")?.unwrap_or(1);
    let apart = amount(request, "apart_ms")?.unwrap_or(0);
    chain.mine_many(blocks, i64::try_from(apart).unwrap_or(i64::MAX))?;
    status(chain, request)
}

fn time(chain: &mut Chain, request: &Request) -> Result<Value, DevError> {
    let time = match (request.number("unix_ms")?, request.number("advance_ms")?) {
        (Some(time), None) => time,
        (None, Some(advance)) => chain.now().saturating_add(advance),
        _ => return Err(DevError::Missing("either `unix_ms` or `advance_ms` is needed")),
    };
    chain.set_time(time)?;
    status(chain, request)
}

fn drop_pending(chain: &mut Chain, _request: &Request) -> Result<Value, DevError> {
    let dropped: Vec<String> = chain.drop_pending().iter().map(ToString::to_string).collect();
    Ok(json!({ "dropped": dropped }))
}

fn show_pending(chain: &mut Chain, request: &Request) -> Result<Value, DevError> {
    chain.show_pending(request.flag("shown"));
    status(chain, request)
}

fn fork(chain: &mut Chain, request: &Request) -> Result<Value, DevError> {
    let blocks = amount(request, "blocks")?.ok_or(DevError::Missing("`blocks` is needed"))?;
    chain.fork(blocks, request.flag("drop_transactions"))?;
    status(chain, request)
}

fn code(chain: &mut Chain, request: &Request) -> Result<Value, DevError> {
    let address = address(request)?;
    let text = request.text("code").ok_or(DevError::Missing("`code` is needed, in hex"))?;
    let code = unhex("code", text)?;
    chain.put_code(address, &code)?;
    Ok(json!({ "address": address.to_base58(), "bytes": code.len() }))
}
