//! A feed that says by itself what changes, over WebSocket.

use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use futures::{SinkExt, StreamExt};
use reqwest::Url;
use serde_json::json;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_tungstenite::{
    connect_async_with_config,
    tungstenite::{self, Message, protocol::WebSocketConfig},
};

use super::{
    feed::{Feed, FeedError, Hear},
    http::Shape,
};

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long no price may be said. A connection that is up and says none is none.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The longest message.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// A feed over WebSocket. It is told `{"ids": ["ID"]}` once, and says what [`Shape::Plain`] says, of all ids or of some, whenever it
/// likes. Its address may hold a key, so it is not shown.
pub struct StreamFeed {
    url: Url,
}

impl StreamFeed {
    /// A feed at `url`, ws or wss.
    pub fn new(url: Url) -> Self {
        // Two providers of cryptography are linked, and rustls takes neither by itself. That one is there already is no fault.
        let _ = aws_lc_rs::default_provider().install_default();
        Self { url }
    }
}

#[async_trait]
impl Feed for StreamFeed {
    async fn read(&self, ids: &[String], hear: Hear<'_>) -> Result<(), FeedError> {
        let broken = |error: tungstenite::Error| FeedError::Unreachable(error.to_string());
        let late = |_| FeedError::Unreachable(format!("connecting took longer than {CONNECT_MAX:?}"));
        let limits = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let connecting = connect_async_with_config(self.url.as_str(), Some(limits), true);
        let (mut socket, _) = timeout(CONNECT_MAX, connecting).await.map_err(late)?.map_err(broken)?;
        socket.send(Message::text(json!({"ids": ids}).to_string())).await.map_err(broken)?;
        let mut silent_at = Instant::now() + SILENCE_MAX;
        loop {
            let said = timeout_at(silent_at, socket.next()).await.ok().flatten().ok_or(FeedError::Ended)?;
            match said.map_err(broken)? {
                Message::Text(text) => {
                    let mut hear = |id: &str, observation| {
                        silent_at = Instant::now() + SILENCE_MAX;
                        hear(id, observation);
                    };
                    Shape::Plain.read(text.as_bytes(), Utc::now(), &mut hear)?;
                }
                Message::Close(_) => return Err(FeedError::Ended),
                _ => {}
            }
        }
    }
}
