//! A gate between a payer and a gateway: it holds submissions back, or passes them on and loses the answers, and remembers each.

use std::{
    convert::Infallible,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
};

use anyhow::Result;
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures::stream;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

const SUBMIT: &str = "/v1/payments";
const OPEN: u8 = 0;
const HOLDS: u8 = 1;
const LOSES: u8 = 2;

/// A running gate.
pub struct Gate {
    pub url: String,
    inner: Inner,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Clone)]
struct Inner {
    gateway: String,
    state: Arc<AtomicU8>,
    submissions: Arc<Mutex<Vec<Bytes>>>,
}

impl Gate {
    /// Starts in front of the gateway at this address; open.
    pub async fn start(gateway: String) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let inner = Inner { gateway, state: Arc::default(), submissions: Arc::default() };
        let routes = Router::new().fallback(pass).with_state(inner.clone());
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { url, inner, _serving: AbortOnDropHandle::new(serving) })
    }

    /// Passes everything on.
    pub fn open(&self) {
        self.inner.state.store(OPEN, Ordering::SeqCst);
    }

    /// Passes no submission on, and answers none.
    pub fn hold(&self) {
        self.inner.state.store(HOLDS, Ordering::SeqCst);
    }

    /// Passes submissions on, and answers them with nothing that can be read.
    pub fn lose(&self) {
        self.inner.state.store(LOSES, Ordering::SeqCst);
    }

    /// The bodies of all submissions so far.
    pub fn submissions(&self) -> Vec<Bytes> {
        self.inner.submissions.lock().unwrap().clone()
    }
}

async fn pass(State(gate): State<Inner>, request: Request) -> Response {
    match gate.pass(request).await {
        Ok(response) => response,
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}

impl Inner {
    async fn pass(&self, request: Request) -> Result<Response> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, 1 << 20).await?;
        let is_submission = parts.method == "POST" && parts.uri.path() == SUBMIT;
        let state = if is_submission { self.state.load(Ordering::SeqCst) } else { OPEN };
        if is_submission {
            self.submissions.lock().unwrap().push(body.clone());
        }
        if state == HOLDS {
            std::future::pending::<()>().await;
        }
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut asked = reqwest::Client::new().request(parts.method, format!("{}{path}", self.gateway));
        for name in ["content-type", "prefer", "last-event-id", "x-position"] {
            if let Some(value) = parts.headers.get(name) {
                asked = asked.header(name, value);
            }
        }
        let answer = asked.body(body).send().await?;
        if state == LOSES {
            return Ok((StatusCode::BAD_GATEWAY, "lost").into_response());
        }
        let mut response = Response::builder().status(answer.status());
        for name in ["content-type", "retry-after", "x-position"] {
            if let Some(value) = answer.headers().get(name) {
                response = response.header(name, value);
            }
        }
        // Piece by piece, as a stream of events comes.
        let chunks = stream::unfold(answer, |mut answer| async move {
            let chunk = answer.chunk().await.ok()??;
            Some((Ok::<_, Infallible>(chunk), answer))
        });
        Ok(response.body(Body::from_stream(chunks))?)
    }
}
