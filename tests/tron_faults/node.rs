//! A node that passes everything on to the real one, and fails when it is told to.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use alloy::primitives::B256;
use anyhow::{Context, Result};
use axum::{
    Json, Router,
    body::to_bytes,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use chains_tron::transaction;

/// What the node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Passes everything on.
    Passing,
    /// Says that it took a transaction, and loses it.
    Losing,
    /// Is not there: whoever stands before it says so.
    Away,
    /// Takes every call and answers none.
    Silent,
}

/// The node in between.
pub struct LossyNode {
    url: String,
    shared: Arc<Shared>,
    _serving: AbortOnDropHandle<()>,
}

struct Shared {
    target: String,
    http: reqwest::Client,
    mode: Mutex<Mode>,
    lost: Mutex<Vec<B256>>,
    refused: AtomicUsize,
}

impl LossyNode {
    /// A node in front of the one on `port`.
    pub async fn start(port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            target: format!("http://127.0.0.1:{port}"),
            http: reqwest::Client::new(),
            mode: Mutex::new(Mode::Passing),
            lost: Mutex::default(),
            refused: AtomicUsize::new(0),
        });
        let routes = Router::new().fallback(answer).with_state(shared.clone());
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { url, shared, _serving: AbortOnDropHandle::new(serving) })
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Does this from now on.
    pub fn set(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap() = mode;
    }

    /// The transactions that were lost, in order; one that came again is there again.
    pub fn lost(&self) -> Vec<B256> {
        self.shared.lost.lock().unwrap().clone()
    }

    /// How many calls got no answer of the real node.
    pub fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::SeqCst)
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let mode = *shared.mode.lock().unwrap();
    if let Mode::Away | Mode::Silent = mode {
        shared.refused.fetch_add(1, Ordering::SeqCst);
        if mode == Mode::Silent {
            std::future::pending::<()>().await;
        }
        return StatusCode::BAD_GATEWAY.into_response();
    }
    match shared.pass_on(mode, request).await {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}

impl Shared {
    async fn pass_on(&self, mode: Mode, request: Request) -> Result<Value> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let body = to_bytes(body, 1 << 20).await?;
        if mode == Mode::Losing && path == "/wallet/broadcasthex" {
            let sent: Value = serde_json::from_slice(&body)?;
            let bytes = hex::decode(sent["transaction"].as_str().context("a transaction")?)?;
            let id = transaction::read_signed(&bytes)?.0.id;
            self.lost.lock().unwrap().push(id);
            return Ok(json!({"result": true, "txid": hex::encode(id)}));
        }
        let call = self.http.request(parts.method, format!("{}{path}", self.target));
        Ok(call.body(body).send().await?.error_for_status()?.json().await?)
    }
}
