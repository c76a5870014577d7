//! A node that repeats what it is asked to the real one, and remembers.

use std::sync::{Arc, Mutex};

use anyhow::Result;
use axum::{Router, body::Bytes, extract::State, http::header, routing::post};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// What the node is asked with, where it is, and what it was asked.
type Repeater = (reqwest::Client, String, Arc<Mutex<Vec<String>>>);

/// A node that is overheard.
pub struct Overheard {
    asked: Arc<Mutex<Vec<String>>>,
    pub url: String,
    _serving: AbortOnDropHandle<()>,
}

impl Overheard {
    /// Stands before the node at this address.
    pub async fn before(node: String) -> Result<Self> {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let state = (reqwest::Client::new(), node, Arc::clone(&asked));
        let repeat = async |State((client, node, asked)): State<Repeater>, body: Bytes| {
            asked.lock().unwrap().push(String::from_utf8_lossy(&body).to_ascii_lowercase());
            let sent = client.post(node).header("content-type", "application/json").body(body).send().await;
            let answer = sent.unwrap().bytes().await.unwrap();
            ([(header::CONTENT_TYPE, "application/json")], answer)
        };
        let router = Router::new().route("/", post(repeat)).with_state(state);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Ok(Self { asked, url, _serving: AbortOnDropHandle::new(serving) })
    }

    /// The bodies of what was asked since the last time, in lower case.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}
