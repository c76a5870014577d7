//! Fault injection between a NATS client and a real nats-server: a proxy that reads the protocol and, by one seed, loses, delays,
//! repeats and answers as networks, replicas that are behind, changing leaders and slow clients do.
//!
//! What strikes a message follows from the seed, the connection's number, the message's kind and how many of that kind came before
//! it on the connection. So the same seed strikes the same messages as far as the client sends the same; the server and the clock
//! are real, so the order of what happens between connections may be another.
//!
//! Order is kept as NATS keeps it: of what is published into one stream over one connection, and of what one subscription
//! receives. Between streams, between subscriptions, and between a publish and a read by way of the API, it is not.

mod accounts;
mod frames;
mod link;
mod plan;
mod queue;
mod requests;
pub mod runs;

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use tokio::{net::TcpListener, task::JoinHandle};

pub use self::accounts::{RunServer, credentials};
use self::frames::Frame;
pub use self::plan::{Coverage, Dice, FAULTS, Fault, FaultPlan};

/// How often it is looked whether something is still under way.
const POLL: Duration = Duration::from_millis(2);
/// Answers to one Direct Get that are remembered.
const OLDER_MAX: usize = 16;

/// Name and password that the proxy gives in its clients' place.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// Its password.
    pub password: String,
}

/// The proxy, until it is dropped.
pub struct FaultProxy {
    url: String,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// An answer that was given: how many bytes of it are headers, and the bytes.
type Given = (usize, Vec<u8>);

/// What all connections through a proxy share.
struct Shared {
    /// Host and port of the server.
    server: String,
    credentials: Option<Credentials>,
    plan: FaultPlan,
    armed: AtomicBool,
    /// Frames that were read and not written yet.
    under_way: Arc<AtomicUsize>,
    coverage: Arc<Coverage>,
    /// What was answered to Direct Gets of a subject's last message so far.
    answers: Mutex<HashMap<String, Vec<Given>>>,
}

impl FaultProxy {
    /// A proxy before the server at `url`, which gives `credentials` in its clients' place. Nothing strikes before
    /// [`FaultProxy::arm`].
    ///
    /// # Errors
    /// When it cannot listen, or `url` is not a `nats://` address.
    pub async fn start(
        url: &str,
        credentials: Option<Credentials>,
        plan: FaultPlan,
        coverage: Arc<Coverage>,
    ) -> Result<Self> {
        let server = url.strip_prefix("nats://").context("a nats:// address")?.to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("nats://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            server,
            credentials,
            plan,
            armed: AtomicBool::new(false),
            under_way: Arc::default(),
            coverage,
            answers: Mutex::default(),
        });
        let accepting = tokio::spawn({
            let shared = shared.clone();
            async move {
                let mut number = 0;
                while let Ok((client, _)) = listener.accept().await {
                    number += 1;
                    tokio::spawn(link::run(shared.clone(), client, number));
                }
            }
        });
        Ok(Self { url, shared, accepting })
    }

    /// Its address, `nats://127.0.0.1:port`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Faults strike from now on.
    pub fn arm(&self) {
        self.shared.armed.store(true, Ordering::SeqCst);
    }

    /// No more faults strike. What is late is still under way.
    pub fn calm(&self) {
        self.shared.armed.store(false, Ordering::SeqCst);
    }

    /// Returns when nothing that was read is still to be written.
    pub async fn settled(&self) {
        while self.shared.under_way.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn is_armed(&self) -> bool {
        self.armed.load(Ordering::SeqCst)
    }

    /// A client's CONNECT with the proxy's credentials in it.
    fn introduced(&self, frame: &Frame) -> Vec<u8> {
        let Some(Credentials { user, password }) = &self.credentials else { return frame.bytes() };
        let text = String::from_utf8_lossy(&frame.line);
        match text.split_once('{') {
            Some((verb, rest)) => format!(r#"{verb}{{"user":"{user}","pass":"{password}",{rest}"#).into_bytes(),
            None => frame.bytes(),
        }
    }

    /// One of the answers that were given to a request before this one, as a replica that is behind gives it; `None` for the
    /// time before there was any.
    fn older(&self, request: &str, headers: usize, content: &[u8], pick: u64) -> Option<Given> {
        // Every change is whole before the lock is let go.
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let given = answers.entry(request.to_owned()).or_default();
        if given.last().is_none_or(|(_, last)| last != content) && given.len() < OLDER_MAX {
            given.push((headers, content.to_vec()));
        }
        let older = &given[..given.len() - 1];
        let picked = usize::try_from(pick).unwrap_or(0) % (older.len() + 1);
        picked.checked_sub(1).map(|nth| older[nth].clone())
    }
}
