//! A node that passes everything on to a real one until it is told to fail.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use alloy::transports::http::reqwest;
use anyhow::Result;
use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// After so many transactions nothing is answered any more. Whether the last of them is passed on.
    Death { transactions: usize, is_last_passed_on: bool },
    /// No transaction is passed on until those that were signed first cannot land any more.
    Loss { last_valid_height: Option<u64> },
    /// So many requests, of one method or any, are refused for their number, every second one in the body of the answer alone.
    Limit { method: Option<&'static str>, requests: usize },
}

/// The node.
#[derive(Clone)]
pub struct Proxy {
    pub url: String,
    truth: String,
    http: reqwest::Client,
    failure: Arc<Mutex<Option<Failure>>>,
    transactions: Arc<AtomicUsize>,
}

impl Proxy {
    pub async fn before(truth: &str) -> Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let http = reqwest::Client::builder().timeout(Duration::from_secs(30)).build()?;
        let proxy = Self { url, truth: truth.to_owned(), http, failure: Arc::default(), transactions: Arc::default() };
        let router = Router::new().route("/", post(answer)).with_state(proxy.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(proxy)
    }

    pub fn fail(&self, failure: Failure) {
        *self.failure.lock().unwrap() = Some(failure);
    }

    pub fn mend(&self) {
        *self.failure.lock().unwrap() = None;
    }

    /// What goes wrong still.
    pub fn failure(&self) -> Option<Failure> {
        *self.failure.lock().unwrap()
    }

    /// How many transactions it was sent.
    pub fn transactions(&self) -> usize {
        self.transactions.load(Ordering::Relaxed)
    }

    /// What a request gets instead of the true answer, and whether the real node hears of it.
    fn failed(&self, request: &Value) -> (Option<Response>, bool) {
        let is_transaction = request["method"] == "sendTransaction";
        let mut failure = self.failure.lock().unwrap();
        match failure.as_mut() {
            None => (None, true),
            Some(Failure::Death { transactions: 0, .. }) => (Some(dead()), false),
            Some(Failure::Death { transactions, is_last_passed_on }) if is_transaction => {
                *transactions -= 1;
                let is_last = *transactions == 0;
                (is_last.then(dead), !is_last || *is_last_passed_on)
            }
            Some(Failure::Death { .. }) => (None, true),
            Some(Failure::Loss { .. }) if is_transaction => {
                let taken = json!({"jsonrpc": "2.0", "id": request["id"], "result": "1".repeat(64)});
                (Some(Json(taken).into_response()), false)
            }
            Some(Failure::Loss { .. }) => (None, true),
            Some(Failure::Limit { requests: 0, .. }) => (None, true),
            Some(Failure::Limit { method: Some(method), .. }) if request["method"] != *method => (None, true),
            Some(Failure::Limit { requests, .. }) => {
                *requests -= 1;
                let error = json!({"code": 429, "message": "Too many requests for this endpoint"});
                let refused = Json(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
                let status = if *requests % 2 == 0 { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
                let headers = HeaderMap::from_iter([(header::RETRY_AFTER, "0".parse().unwrap())]);
                (Some((status, headers, refused).into_response()), false)
            }
        }
    }

    /// Ends a loss when the block height has passed what was signed first.
    fn learn(&self, method: &Value, truth: &Value) {
        let mut failure = self.failure.lock().unwrap();
        let Some(Failure::Loss { last_valid_height }) = failure.as_mut() else { return };
        if method == "getLatestBlockhash" {
            let height = truth.pointer("/result/value/lastValidBlockHeight").and_then(Value::as_u64);
            *last_valid_height = last_valid_height.or(height);
        }
        let height = (method == "getBlockHeight").then(|| truth["result"].as_u64()).flatten();
        if height.zip(*last_valid_height).is_some_and(|(height, last)| height > last) {
            *failure = None;
        }
    }
}

fn dead() -> Response {
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

async fn answer(State(proxy): State<Proxy>, Json(request): Json<Value>) -> Response {
    if request["method"] == "sendTransaction" {
        proxy.transactions.fetch_add(1, Ordering::Relaxed);
    }
    let (failed, is_passed_on) = proxy.failed(&request);
    if !is_passed_on {
        return failed.unwrap_or_else(dead);
    }
    let body = request.to_string();
    let sent = proxy.http.post(&proxy.truth).header(header::CONTENT_TYPE, "application/json").body(body).send().await;
    let truth: Option<Value> = match sent {
        Ok(response) => response.bytes().await.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()),
        Err(_) => None,
    };
    let Some(truth) = truth else { return dead() };
    proxy.learn(&request["method"], &truth);
    failed.unwrap_or_else(|| Json(truth).into_response())
}
