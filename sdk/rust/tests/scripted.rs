//! A gateway that follows a script, and remembers what it was asked.

use std::{
    collections::VecDeque,
    net::Ipv4Addr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use gateway_client::Gateway;

/// One answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A status and a JSON body.
    Json(u16, Value),
    /// The same with a header.
    With(u16, (&'static str, &'static str), Value),
    /// A JSON body that is made of the one that was asked with.
    #[cfg(feature = "evm")]
    Made(fn(&Value) -> Value),
    /// A body that is not JSON.
    Text(u16, &'static str),
    /// A piece of a stream of events, and then the connection ends.
    Events(&'static str),
}

/// What was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The gateway. What it is asked beyond its script is answered with a 503.
#[derive(Clone)]
pub struct Scripted {
    pub client: Gateway,
    state: Arc<Mutex<(VecDeque<Answer>, Vec<Asked>)>>,
}

impl Scripted {
    pub async fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = Gateway::new(&format!("http://{}/base", listener.local_addr().unwrap())).unwrap();
        let state = Arc::new(Mutex::new((script.into_iter().collect(), Vec::new())));
        let scripted = Self { client, state };
        let routes = Router::new().fallback(answer).with_state(scripted.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        scripted
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().1.clone()
    }
}

async fn answer(State(scripted): State<Scripted>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let path = parts.uri.path_and_query().unwrap().to_string();
    let mut state = scripted.state.lock().unwrap();
    state.1.push(Asked { path, headers: parts.headers, body: body.clone() });
    let next = state.0.pop_front().unwrap_or_else(|| Answer::Json(503, refusal("SERVICE_UNAVAILABLE")));
    let status = |status| StatusCode::from_u16(status).unwrap();
    match next {
        Answer::Json(code, body) => (status(code), axum::Json(body)).into_response(),
        Answer::With(code, header, body) => (status(code), [header], axum::Json(body)).into_response(),
        #[cfg(feature = "evm")]
        Answer::Made(make) => axum::Json(make(&serde_json::from_slice(&body).unwrap())).into_response(),
        Answer::Text(code, body) => (status(code), body).into_response(),
        Answer::Events(text) => ([("content-type", "text/event-stream")], Body::from(text)).into_response(),
    }
}

/// An error's body.
pub fn refusal(code: &str) -> Value {
    json!({"code": code, "message": "destination[0].account: must not be the zero address"})
}
