//! A node that passes everything on to a real one, and changes the answers as a test says.

use std::sync::{Arc, Mutex};

use alloy::transports::http::reqwest;
use anyhow::Result;
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::Value;

type Lie = Box<dyn FnMut(&str, &Value, Value) -> Value + Send>;
type Instead = Box<dyn FnMut(&str, &Value) -> Option<Response> + Send>;

/// What was asked.
#[derive(Clone)]
pub struct Heard {
    /// Without a slash before it, for example `wallet/getblock`.
    pub path: String,
    pub body: Value,
    pub headers: HeaderMap,
}

#[derive(Clone)]
pub struct Liar {
    truth: String,
    http: reqwest::Client,
    lie: Arc<Mutex<Option<Lie>>>,
    instead: Arc<Mutex<Option<Instead>>>,
    heard: Arc<Mutex<Vec<Heard>>>,
    pub url: String,
}

impl Liar {
    pub async fn before(truth: &str) -> Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let liar = Self {
            truth: truth.to_owned(),
            http: reqwest::Client::new(),
            lie: Arc::default(),
            instead: Arc::default(),
            heard: Arc::default(),
            url,
        };
        let router = Router::new().fallback(answer).with_state(liar.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(liar)
    }

    /// From now on every answer goes through `lie`: (path, request, true answer) → answer.
    pub fn tell(&self, lie: impl FnMut(&str, &Value, Value) -> Value + Send + 'static) {
        *self.lie.lock().unwrap() = Some(Box::new(lie));
    }

    /// From now on the real node never hears of what `instead` has an answer to: (path, request) → answer.
    pub fn answer(&self, instead: impl FnMut(&str, &Value) -> Option<Response> + Send + 'static) {
        *self.instead.lock().unwrap() = Some(Box::new(instead));
    }

    /// From now on the answer to `path` is `answer`, and the real node never hears of it.
    pub fn say(&self, path: &'static str, answer: Value) {
        self.answer(move |asked, _| (asked == path).then(|| axum::Json(answer.clone()).into_response()));
    }

    pub fn be_honest(&self) {
        *self.lie.lock().unwrap() = None;
        *self.instead.lock().unwrap() = None;
    }

    /// Everything that was asked since the last look.
    pub fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

async fn answer(State(liar): State<Liar>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let path = uri.path().trim_start_matches('/').to_owned();
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    liar.heard.lock().unwrap().push(Heard { path: path.clone(), body: request.clone(), headers });
    let instead = liar.instead.lock().unwrap().as_mut().and_then(|instead| instead(&path, &request));
    if let Some(answer) = instead {
        return answer;
    }
    let asked = liar.http.post(format!("{}/{path}", liar.truth)).body(body.to_vec()).send().await;
    let truth = match asked {
        Ok(response) => response.bytes().await.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()),
        Err(_) => None,
    };
    let Some(truth) = truth else { return StatusCode::BAD_GATEWAY.into_response() };
    let mut lie = liar.lie.lock().unwrap();
    axum::Json(match lie.as_mut() {
        Some(lie) => lie(&path, &request, truth),
        None => truth,
    })
    .into_response()
}
