//! What a service does to its callers.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use alloy::{primitives::B256, signers::local::PrivateKeySigner};
use axum::{Router, response::Response};
use url::Url;

/// How long a call may take here.
pub const CALL_MAX: Duration = Duration::from_millis(500);

pub fn key(seed: u8) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::repeat_byte(seed)).unwrap()
}

/// What a service does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Honest,
    /// Signs with another key than it says.
    WrongKey,
    /// Signs another message than it was given.
    OtherMessage,
    /// Answers too late.
    Slow,
    /// Answers with this status.
    Status(u16),
    /// Answers with what is none.
    Garbage,
    /// Answers without an end.
    Endless,
}

/// A service's mood, which a test may change, and how often it was asked to sign.
#[derive(Clone)]
pub struct Service {
    mood: Arc<Mutex<Mood>>,
    pub signed: Arc<AtomicUsize>,
}

impl Service {
    pub fn new() -> Self {
        Self { mood: Arc::new(Mutex::new(Mood::Honest)), signed: Arc::default() }
    }

    pub fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub fn mood(&self) -> Mood {
        *self.mood.lock().unwrap()
    }

    pub fn asked(&self) -> usize {
        self.signed.load(Ordering::Relaxed)
    }

    /// What a service in a bad mood says before it looks at what it was asked.
    pub async fn refusal(&self) -> Option<Response> {
        match self.mood() {
            Mood::Slow => {
                tokio::time::sleep(CALL_MAX * 4).await;
                None
            }
            Mood::Status(status) => Some(Response::builder().status(status).body("no".into()).unwrap()),
            Mood::Garbage => Some(Response::new("0xnothing".into())),
            Mood::Endless => Some(Response::new(vec![b'a'; 3 << 20].into())),
            Mood::Honest | Mood::WrongKey | Mood::OtherMessage => None,
        }
    }
}

/// Serves `router` on a port of its own.
pub async fn serve(router: Router) -> Url {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}
