//! Head feed: hints over WebSocket that a chain has a new block, so that whoever waits for one looks at once and otherwise less
//! often.
//!
//! Nothing rests on it. A hint makes somebody ask the nodes as ever, and blocks that nobody hints at are found by asking now and
//! then. What a provider says too often is not listened to, and while nobody waits there is no connection.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

use events::ChainId;

use crate::nodes::origin;

/// While hints come, so many times the usual time passes between two looks without one.
const RELAXED: u32 = 5;
/// After so long without a hint none is counted on.
const LIVE_MAX: Duration = Duration::from_secs(30);
/// How long a connection may say nothing before another is made.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long a connection is kept up that nobody waits at.
const UNWANTED_MAX: Duration = Duration::from_secs(60);
/// How long it may take to connect and subscribe.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Pauses before a connection is made anew.
const RECONNECT_MIN: Duration = Duration::from_secs(1);
const RECONNECT_MAX: Duration = Duration::from_secs(60);
/// How much is shown of a refusal.
const REFUSAL_CHARS_MAX: usize = 200;
/// Largest message that is read: a head is a few kilobytes.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// Address of a provider's WebSocket. What is shown of it is its origin, as paths and queries hold keys.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct WsUrl(pub String);

impl fmt::Debug for WsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WsUrl").field(&origin(&self.0).unwrap_or_default()).finish()
    }
}

/// The words in which a provider is asked for heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `eth_subscribe` of `newHeads`, as go-ethereum defines it.
    Evm,
    /// `slotSubscribe` of Solana's RPC.
    Solana,
}

impl Dialect {
    fn subscribe(self) -> Value {
        let (method, params) = match self {
            Self::Evm => ("eth_subscribe", json!(["newHeads"])),
            Self::Solana => ("slotSubscribe", json!([])),
        };
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    }

    fn notification(self) -> &'static str {
        match self {
            Self::Evm => "eth_subscription",
            Self::Solana => "slotNotification",
        }
    }
}

/// The head feed of one chain; cheap to clone.
#[derive(Debug, Clone)]
pub struct HeadFeed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    chain_id: ChainId,
    url: WsUrl,
    dialect: Dialect,
    heard: watch::Sender<Option<Instant>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When somebody last waited.
    wanted_at: Option<Instant>,
    /// Whether a task listens.
    listening: bool,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    error: Option<Value>,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("it takes too long to connect")]
    Late,
    #[error("nothing was heard for a minute")]
    Silent,
    #[error("it was closed")]
    Closed,
    #[error("the provider refuses: {0}")]
    Refused(String),
    #[error(transparent)]
    Connection(#[from] Box<tokio_tungstenite::tungstenite::Error>),
}

impl HeadFeed {
    /// A feed of the provider at `url`. Nothing is connected before somebody waits.
    pub fn new(chain_id: ChainId, url: WsUrl, dialect: Dialect) -> Self {
        // Two providers of cryptography are linked, and rustls takes neither by itself. That one is there already is no fault.
        let _ = aws_lc_rs::default_provider().install_default();
        let (heard, state) = Default::default();
        Self(Arc::new(Inner { chain_id, url, dialect, heard, state }))
    }

    /// Somebody waits: a connection is made, or kept up.
    pub(crate) fn want(&self) {
        let mut state = self.0.state();
        state.wanted_at = Some(Instant::now());
        if !std::mem::replace(&mut state.listening, true) {
            tokio::spawn(listen(Arc::downgrade(&self.0)));
        }
    }

    /// Connects, subscribes and waits for the provider's answer, for whoever wants to know beforehand.
    ///
    /// # Errors
    /// Why no head would be heard.
    pub async fn probe(&self) -> Result<(), String> {
        let said = async {
            let mut socket = subscribed(&self.0).await?;
            loop {
                let message = socket.next().await.ok_or(Ended::Closed)?.map_err(Box::new)?;
                if let Message::Text(text) = message {
                    return refusal(&text).map_or(Ok(()), |refused| Err(Ended::Refused(refused)));
                }
            }
        };
        timeout(CONNECT_MAX, said).await.unwrap_or(Err(Ended::Late)).map_err(|ended| ended.to_string())
    }

    /// What is heard from now on.
    pub(crate) fn hints(&self) -> Hints {
        Hints(self.0.heard.subscribe())
    }
}

impl Inner {
    // No holder of the lock can panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_wanted(&self) -> bool {
        self.state().wanted_at.is_some_and(|at| at.elapsed() < UNWANTED_MAX)
    }
}

/// The hints as one poller hears them.
#[derive(Debug)]
pub(crate) struct Hints(watch::Receiver<Option<Instant>>);

impl Hints {
    /// The pause between two looks, `every` where nothing is heard: until the next hint, but half of it at least and a multiple at
    /// most.
    pub(crate) async fn pause(&mut self, every: Duration) {
        let is_live = self.0.borrow_and_update().is_some_and(|at| at.elapsed() < LIVE_MAX);
        let longest = if is_live { every * RELAXED } else { every };
        let earliest = Instant::now() + every / 2;
        if timeout(longest, self.0.changed()).await.is_ok() {
            sleep_until(earliest).await;
        }
    }
}

/// Listens for as long as somebody waits.
async fn listen(inner: Weak<Inner>) {
    let mut pause = RECONNECT_MIN;
    loop {
        let Some(feed) = inner.upgrade() else { return };
        let connected_at = Instant::now();
        match connection(&feed).await {
            Ok(()) => {
                let mut state = feed.state();
                // Somebody may have come meanwhile.
                if state.wanted_at.is_none_or(|at| at.elapsed() >= UNWANTED_MAX) {
                    state.listening = false;
                    return;
                }
            }
            Err(ended) => {
                let (chain_id, origin) = (&feed.chain_id, origin(&feed.url.0));
                tracing::warn!(%chain_id, origin, %ended, ?pause, "heads are not heard for now; the nodes are asked as often as ever");
            }
        }
        drop(feed);
        if connected_at.elapsed() > RECONNECT_MAX {
            pause = RECONNECT_MIN;
        }
        sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MAX);
    }
}

/// A connection that has asked for heads.
async fn subscribed(feed: &Inner) -> Result<WebSocketStream<MaybeTlsStream<TcpStream>>, Ended> {
    let limits =
        WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX)).max_frame_size(Some(MESSAGE_BYTES_MAX));
    let connecting = connect_async_with_config(feed.url.0.as_str(), Some(limits), true);
    let (mut socket, _) = timeout(CONNECT_MAX, connecting).await.map_err(|_| Ended::Late)?.map_err(Box::new)?;
    socket.send(Message::text(feed.dialect.subscribe().to_string())).await.map_err(Box::new)?;
    Ok(socket)
}

/// Why the provider refuses, if that is what it says.
fn refusal(text: &str) -> Option<String> {
    let error = serde_json::from_str::<Said>(text).ok()?.error?;
    Some(error.to_string().chars().take(REFUSAL_CHARS_MAX).collect())
}

/// One connection, until it ends or nobody waits any more.
async fn connection(feed: &Inner) -> Result<(), Ended> {
    let mut socket = subscribed(feed).await?;
    while feed.is_wanted() {
        let next = timeout(SILENCE_MAX, socket.next()).await.map_err(|_| Ended::Silent)?;
        let Message::Text(text) = next.ok_or(Ended::Closed)?.map_err(Box::new)? else { continue };
        if let Some(refused) = refusal(&text) {
            return Err(Ended::Refused(refused));
        }
        let Ok(said) = serde_json::from_str::<Said>(&text) else { continue };
        if said.method.as_deref() == Some(feed.dialect.notification()) {
            feed.heard.send_replace(Some(Instant::now()));
        }
    }
    let _ = socket.close(None).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::net::TcpListener;
    use tokio_tungstenite::accept_async;

    use super::*;

    /// A provider that tells of blocks as the test says, and counts who connects.
    async fn provider(dialect: Dialect) -> (WsUrl, watch::Sender<u64>, Arc<AtomicU64>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = WsUrl(format!("ws://{}/v1/secret", listener.local_addr().unwrap()));
        let (blocks, connections) = (watch::Sender::new(0), Arc::new(AtomicU64::new(0)));
        let (told, counted) = (blocks.clone(), connections.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let mut told = told.subscribe();
                tokio::spawn(async move {
                    let mut socket = accept_async(stream).await.unwrap();
                    let asked = socket.next().await.unwrap().unwrap().into_text().unwrap();
                    assert_eq!(serde_json::from_str::<Value>(&asked).unwrap(), dialect.subscribe());
                    socket.send(Message::text(r#"{"jsonrpc":"2.0","id":1,"result":"0x1"}"#)).await.unwrap();
                    while told.changed().await.is_ok() {
                        let told =
                            json!({"jsonrpc": "2.0", "method": dialect.notification(), "params": {"result": {}}});
                        if socket.send(Message::text(told.to_string())).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        (url, blocks, connections)
    }

    #[tokio::test]
    async fn what_a_provider_tells_is_heard_while_somebody_waits_over_one_connection() {
        for dialect in [Dialect::Evm, Dialect::Solana] {
            let (url, blocks, connections) = provider(dialect).await;
            let feed = HeadFeed::new(ChainId::evm(1), url, dialect);
            feed.probe().await.unwrap();
            let mut hints = feed.hints();
            assert!(hints.0.borrow_and_update().is_none(), "nobody waits yet");
            feed.want();
            feed.want();
            // The first may be told before the feed is there.
            let told = async {
                loop {
                    blocks.send_modify(|block| *block += 1);
                    sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::select! {
                heard = hints.0.changed() => heard.unwrap(),
                () = told => {}
            }
            assert!(hints.0.borrow().is_some());
            assert_eq!(connections.load(Ordering::Relaxed), 2, "the probe's and the feed's");
        }
    }

    #[tokio::test]
    async fn a_provider_that_refuses_is_told_by_its_words() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = WsUrl(format!("ws://{}", listener.local_addr().unwrap()));
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut socket = accept_async(stream).await.unwrap();
            let refusal = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "not in your plan"}});
            socket.send(Message::text(refusal.to_string())).await.unwrap();
            socket.next().await
        });
        let refused = HeadFeed::new(ChainId::evm(1), url, Dialect::Evm).probe().await.unwrap_err();
        assert!(refused.contains("not in your plan"), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn hints_that_flood_cost_one_look_in_half_the_usual_time_and_silence_leaves_the_usual() {
        let feed = HeadFeed::new(ChainId::evm(1), WsUrl("ws://127.0.0.1:1".to_owned()), Dialect::Evm);
        let mut hints = feed.hints();
        let every = Duration::from_secs(2);
        let begun = Instant::now();
        hints.pause(every).await;
        assert_eq!(begun.elapsed(), every);
        for _ in 0..1_000 {
            feed.0.heard.send_replace(Some(Instant::now()));
        }
        let begun = Instant::now();
        hints.pause(every).await;
        assert_eq!(begun.elapsed(), every * RELAXED, "what was heard before the look is answered by it");
        let (mut pauses, begun) = (0, Instant::now());
        while begun.elapsed() < Duration::from_secs(10) {
            feed.0.heard.send_replace(Some(Instant::now()));
            let sent = feed.0.heard.clone();
            let flood = tokio::spawn(async move {
                loop {
                    sent.send_replace(Some(Instant::now()));
                    sleep(Duration::from_millis(1)).await;
                }
            });
            hints.pause(every).await;
            flood.abort();
            pauses += 1;
        }
        assert_eq!(pauses, 10);
        sleep(LIVE_MAX).await;
        let begun = Instant::now();
        hints.pause(every).await;
        assert_eq!(begun.elapsed(), every, "a feed that fell silent is not counted on");
    }

    #[test]
    fn what_is_shown_of_an_address_is_its_origin() {
        let shown = format!("{:?}", WsUrl("wss://eth.example/v3/0123456789abcdef".to_owned()));
        assert_eq!(shown, "WsUrl(\"wss://eth.example\")");
    }
}
