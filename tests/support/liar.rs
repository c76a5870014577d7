//! Somebody between a payer and the gateway, who says something else than the gateway.

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

/// What a liar makes of a body that it passes on.
pub type Lie = fn(&mut Value) -> Result<()>;

/// What is said otherwise than it was.
#[derive(Debug, Clone, Copy)]
pub enum Lies {
    /// The body of what is asked at this path.
    Asked(&'static str, Lie),
    /// The answer of this path.
    Answered(&'static str, Lie),
    /// That it did not work, of the first submission, which the gateway has got.
    LostAnswer,
}

impl Lies {
    /// Nothing: the truth.
    pub const NONE: Self = Self::Answered("", |_| Ok(()));
}

/// A running liar.
pub struct Liar {
    pub url: String,
    submissions: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Clone)]
struct Between {
    gateway: String,
    lies: Lies,
    submissions: Arc<AtomicUsize>,
}

impl Liar {
    /// Stands between a payer and the gateway at this address.
    pub async fn start(gateway: String, lies: Lies) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let submissions = Arc::new(AtomicUsize::new(0));
        let between = Between { gateway, lies, submissions: submissions.clone() };
        let routes = Router::new().fallback(pass_on).with_state(between);
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { url, submissions, _serving: AbortOnDropHandle::new(serving) })
    }

    /// How often something was submitted so far.
    pub fn submissions(&self) -> usize {
        self.submissions.load(Ordering::SeqCst)
    }
}

async fn pass_on(State(between): State<Between>, request: Request) -> Response {
    match between.pass_on(request).await {
        Ok((status, body)) => (status, [("content-type", "application/json")], body).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}

/// The body that `lie` makes of this one.
fn told(body: &Bytes, lie: Lie) -> Result<Bytes> {
    let mut value = serde_json::from_slice(body)?;
    lie(&mut value)?;
    Ok(serde_json::to_vec(&value)?.into())
}

impl Between {
    async fn pass_on(&self, request: Request) -> Result<(StatusCode, Bytes)> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().context("a path")?.as_str();
        let is_submission = parts.method == "POST" && path == SUBMIT;
        let number = if is_submission { self.submissions.fetch_add(1, Ordering::SeqCst) } else { 0 };
        let mut body = to_bytes(body, 1 << 20).await?;
        if let Lies::Asked(of, lie) = self.lies
            && of == parts.uri.path()
        {
            body = told(&body, lie)?;
        }
        let http = reqwest::Client::new();
        let asked = http.request(parts.method, format!("{}{path}", self.gateway));
        let answer = asked.header("content-type", "application/json").body(body).send().await?;
        let (status, body) = (StatusCode::from_u16(answer.status().as_u16())?, answer.bytes().await?);
        match self.lies {
            Lies::Answered(of, lie) if of == parts.uri.path() => {
                ensure!(status == StatusCode::OK, "the gateway refuses: {body:?}");
                Ok((status, told(&body, lie)?))
            }
            Lies::LostAnswer if is_submission && number == 0 => {
                anyhow::bail!("the answer was lost: {status}")
            }
            Lies::Asked(..) | Lies::Answered(..) | Lies::LostAnswer => Ok((status, body)),
        }
    }
}
