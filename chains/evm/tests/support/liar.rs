//! A node that passes everything on to a real one, and changes the answers as a test says.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use alloy::transports::http::reqwest;
use anyhow::Result;
use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};

type Lie = Box<dyn FnMut(&Value, Value) -> Value + Send>;

/// How a node fails that tells no lies.
#[derive(Debug, Clone, Copy)]
pub enum Failure {
    /// It never answers.
    Hangs,
    /// It asks to be left alone for so many seconds.
    TooManyRequests(u64),
    /// It says nothing but what is too much to be read.
    Endless,
}

#[derive(Clone)]
pub struct Liar {
    truth: String,
    http: reqwest::Client,
    lie: Arc<Mutex<Option<Lie>>>,
    swallowed: Arc<Mutex<Option<(&'static str, Value)>>>,
    failure: Arc<Mutex<Option<Failure>>>,
    asked: Arc<AtomicUsize>,
    pub url: String,
}

impl Liar {
    pub async fn before(truth: &str) -> Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let http = reqwest::Client::new();
        let liar = Self {
            truth: truth.to_owned(),
            http,
            lie: Arc::default(),
            swallowed: Arc::default(),
            failure: Arc::default(),
            asked: Arc::default(),
            url,
        };
        let router = Router::new().route("/", post(answer)).with_state(liar.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(liar)
    }

    /// From now on every answer goes through `lie`: (request, true answer) → answer.
    pub fn tell(&self, lie: impl FnMut(&Value, Value) -> Value + Send + 'static) {
        *self.lie.lock().unwrap() = Some(Box::new(lie));
    }

    /// From now on `method` has the result `result`.
    pub fn say(&self, method: &'static str, result: Value) {
        self.tell(move |request, truth| {
            if request["method"] == method {
                json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
            } else {
                truth
            }
        });
    }

    /// From now on `method` has the result `result`, and the real node never hears of it.
    pub fn swallow(&self, method: &'static str, result: Value) {
        *self.swallowed.lock().unwrap() = Some((method, result));
    }

    /// From now on it fails in this way.
    pub fn fail(&self, failure: Failure) {
        *self.failure.lock().unwrap() = Some(failure);
    }

    /// How many requests came since the last look.
    pub fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::SeqCst)
    }

    pub fn be_honest(&self) {
        *self.failure.lock().unwrap() = None;
        *self.swallowed.lock().unwrap() = None;
        *self.lie.lock().unwrap() = None;
    }
}

async fn answer(State(liar): State<Liar>, Json(request): Json<Value>) -> Response {
    liar.asked.fetch_add(1, Ordering::SeqCst);
    let failure = *liar.failure.lock().unwrap();
    match failure {
        Some(Failure::Hangs) => std::future::pending().await,
        Some(Failure::TooManyRequests(seconds)) => {
            (StatusCode::TOO_MANY_REQUESTS, [("retry-after", seconds.to_string())]).into_response()
        }
        Some(Failure::Endless) => vec![b' '; 40 * 1024 * 1024].into_response(),
        None => tell(&liar, request).await.into_response(),
    }
}

async fn tell(liar: &Liar, request: Value) -> Json<Value> {
    let swallowed = liar.swallowed.lock().unwrap().clone();
    if let Some((method, result)) = swallowed
        && request["method"] == method
    {
        return Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }
    let body = request.to_string();
    let response = liar.http.post(&liar.truth).header("content-type", "application/json").body(body).send().await;
    let truth = match response {
        Ok(response) => response.bytes().await.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()),
        Err(_) => None,
    };
    let truth = truth.unwrap_or_else(
        || json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": "gone"}}),
    );
    let mut lie = liar.lie.lock().unwrap();
    Json(match lie.as_mut() {
        Some(lie) => lie(&request, truth),
        None => truth,
    })
}
