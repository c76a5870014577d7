//! Tampering proxy: stands between a payer and the gateway, or its node, and changes a request or a response on its way.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, ensure};
use axum::{
    Router,
    body::{Bytes, to_bytes},
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// Where payments are submitted.
const SUBMIT: &str = "/v1/payments";
/// How transactions are submitted to a node.
const SEND: &str = "eth_sendRawTransaction";

/// A member of what is passed on.
pub fn member<'a>(value: &'a mut Value, pointer: &str) -> Result<&'a mut Value> {
    value.pointer_mut(pointer).with_context(|| format!("no {pointer}"))
}

/// Changes the typed data that is to be signed, and leaves its digest.
pub fn retype(prepared: &mut Value, pointer: &str, value: &str) -> Result<()> {
    let prehash = member(prepared, "/signed_messages/0/message_prehash")?;
    let mut typed: Value = serde_json::from_str(prehash.as_str().context("typed data")?)?;
    *member(&mut typed, pointer)? = value.into();
    *prehash = typed.to_string().into();
    Ok(())
}

/// A change of a body that is passed on.
pub type Change = fn(&mut Value) -> Result<()>;

/// What the proxy does to what passes through it.
#[derive(Debug, Clone, Copy)]
pub enum Tampering {
    /// Changes the body of requests at this path.
    Request(&'static str, Change),
    /// Changes the body of responses at this path.
    Response(&'static str, Change),
    /// Changes a node's responses to calls of this method, from the one with this number on; the first has 0.
    Call(&'static str, usize, Change),
    /// Answers the first submission, which the gateway has got, with a failure.
    LostResponse,
}

impl Tampering {
    /// Nothing.
    pub const NONE: Self = Self::Response("", |_| Ok(()));
}

/// A running proxy.
pub struct TamperingProxy {
    pub url: String,
    submissions: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Clone)]
struct Upstream {
    gateway: String,
    tampering: Tampering,
    submissions: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

impl TamperingProxy {
    /// Starts between a payer and the gateway or the node at this address.
    pub async fn start(gateway: String, tampering: Tampering) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let submissions = Arc::new(AtomicUsize::new(0));
        let upstream = Upstream { gateway, tampering, submissions: submissions.clone(), calls: Arc::default() };
        let routes = Router::new().fallback(pass_on).with_state(upstream);
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { url, submissions, _serving: AbortOnDropHandle::new(serving) })
    }

    /// How many payments, or transactions, were submitted so far.
    pub fn submissions(&self) -> usize {
        self.submissions.load(Ordering::SeqCst)
    }
}

async fn pass_on(State(upstream): State<Upstream>, request: Request) -> Response {
    match upstream.pass_on(request).await {
        Ok((status, body)) => (status, [("content-type", "application/json")], body).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}

/// The body that `change` makes of this one.
fn changed(body: &Bytes, change: Change) -> Result<Bytes> {
    let mut value = serde_json::from_slice(body)?;
    change(&mut value)?;
    Ok(serde_json::to_vec(&value)?.into())
}

/// The method of a call to a node.
fn method(body: &Bytes) -> Option<String> {
    let call: Value = serde_json::from_slice(body).ok()?;
    Some(call.get("method")?.as_str()?.to_owned())
}

impl Upstream {
    async fn pass_on(&self, request: Request) -> Result<(StatusCode, Bytes)> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().context("a path")?.as_str();
        let mut body = to_bytes(body, 1 << 20).await?;
        let call = method(&body);
        let is_submission = (parts.method == "POST" && path == SUBMIT) || call.as_deref() == Some(SEND);
        let number = if is_submission { self.submissions.fetch_add(1, Ordering::SeqCst) } else { 0 };
        if let Tampering::Request(of, change) = self.tampering
            && of == parts.uri.path()
        {
            body = changed(&body, change)?;
        }
        let http = reqwest::Client::new();
        let asked = http.request(parts.method, format!("{}{path}", self.gateway));
        let answer = asked.header("content-type", "application/json").body(body).send().await?;
        let (status, body) = (StatusCode::from_u16(answer.status().as_u16())?, answer.bytes().await?);
        match self.tampering {
            Tampering::Response(of, change) if of == parts.uri.path() => {
                ensure!(status == StatusCode::OK, "the gateway refuses: {body:?}");
                Ok((status, changed(&body, change)?))
            }
            Tampering::Call(of, first, change) if call.as_deref() == Some(of) => {
                let is_changed = self.calls.fetch_add(1, Ordering::SeqCst) >= first;
                Ok((status, if is_changed { changed(&body, change)? } else { body }))
            }
            Tampering::LostResponse if is_submission && number == 0 => {
                anyhow::bail!("the answer was lost: {status}")
            }
            Tampering::Request(..) | Tampering::Response(..) | Tampering::Call(..) | Tampering::LostResponse => {
                Ok((status, body))
            }
        }
    }
}
