//! Headerless connections: subscriptions to what untrusted clients write, of which the server delivers subject, reply and payload.
//!
//! A NATS client may send any bytes as headers: the server hands them on unread. async-nats ends its connection at a header line
//! that it cannot read, so one message of a hostile client would take all that a connection carries with it. A client that says
//! that it takes no headers is sent none, so nothing of them reaches this process (ADR 120).

mod codec;
mod link;

use std::{
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use futures::Stream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::codec::Decoder;

use super::connection::Identity;

/// Messages of a subscription that may wait to be taken; further ones are dropped, as the server drops those of a connection
/// that is too slow.
const WAITING_MAX: usize = 8_192;

/// Where a connection leads, and as whom.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `nats://` or `tls://` addresses.
    pub servers: Vec<String>,
    /// The key that it proves, where the server asks for one.
    pub identity: Option<Identity>,
    /// Certificates of the authorities that may stand behind the server's, PEM; with it nothing but TLS will do.
    pub ca_file: Option<PathBuf>,
    /// Its name in the server's reports.
    pub name: String,
}

/// Why a connection or a subscription was not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No server can be reached now, or the connection was lost.
    #[error("not connected: {0}")]
    Unreachable(String),
    /// The server refuses the client, or cannot be trusted.
    #[error("refused: {0}")]
    Refused(String),
    /// The subject or group cannot stand in a request.
    #[error("{0:?} cannot be subscribed to")]
    Subject(String),
}

impl Error {
    /// Whether it may pass by itself: no server was reached.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }
}

/// What came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The subject that it was published to.
    pub subject: String,
    /// Where an answer is expected.
    pub reply: Option<String>,
    /// Its body; empty where the client sent none.
    pub payload: Bytes,
}

/// A connection that is made again whenever it is lost. Cheap to clone; it ends with the last clone and subscription.
#[derive(Debug, Clone)]
pub struct HeaderlessClient {
    commands: mpsc::UnboundedSender<Command>,
    ids: Arc<AtomicU64>,
    state: watch::Receiver<State>,
}

/// How it is with the connection.
#[derive(Debug, Clone, Copy)]
struct State {
    is_connected: bool,
    /// How often it was made.
    connects: u64,
}

/// The messages in what a server sends to a client without headers, up to where it ends, whole or not.
///
/// # Errors
/// What no server sends.
pub fn messages(sent: &[u8]) -> std::io::Result<Vec<Message>> {
    let (mut codec, mut sent, mut messages) = (codec::Codec::default(), BytesMut::from(sent), Vec::new());
    while let Some(op) = codec.decode(&mut sent)? {
        if let codec::ServerOp::Message(_, message) = op {
            messages.push(message);
        }
    }
    Ok(messages)
}

#[derive(Debug)]
enum Command {
    Subscribe(SubscribeCommand),
    Unsubscribe(u64),
}

#[derive(Debug)]
struct SubscribeCommand {
    id: u64,
    subject: String,
    group: Option<&'static str>,
    messages_max: Option<u64>,
    messages: mpsc::Sender<Message>,
    /// Told when the server has it.
    confirmed: oneshot::Sender<()>,
}

impl HeaderlessClient {
    /// Connects to one of the servers.
    ///
    /// # Errors
    /// [`Error::Unreachable`] and [`Error::Refused`].
    pub async fn connect(endpoint: Endpoint) -> Result<Self, Error> {
        let link = link::open(&endpoint).await?;
        // Unbounded, as a drop cannot wait: one command for each subscription that is made or dropped, and whoever makes them
        // bounds how many there are.
        let (commands, received) = mpsc::unbounded_channel();
        let (changed, state) = watch::channel(State { is_connected: true, connects: 1 });
        tokio::spawn(link::run(endpoint, link, received, changed));
        Ok(Self { commands, ids: Arc::new(AtomicU64::new(1)), state })
    }

    /// A subscription, once the server has it. It goes on over the next connection where one is lost, and misses what is said
    /// meanwhile. One that the server refuses is confirmed, too, and yields nothing: the refusal is in the log alone.
    ///
    /// # Errors
    /// [`Error::Unreachable`] while there is no connection; [`Error::Subject`].
    pub async fn subscribe(&self, subject: impl Into<String>) -> Result<Subscription, Error> {
        self.request(subject.into(), None, None).await
    }

    /// A subscription that ends after `messages_max` messages, more than which the server does not send; in a queue group, where
    /// one is given, whose members share the messages. Of one that is refused see there.
    ///
    /// # Errors
    /// As [`HeaderlessClient::subscribe`].
    pub async fn subscribe_up_to(
        &self,
        subject: impl Into<String>,
        group: Option<&'static str>,
        messages_max: u64,
    ) -> Result<Subscription, Error> {
        self.request(subject.into(), group, Some(messages_max)).await
    }

    async fn request(
        &self,
        subject: String,
        group: Option<&'static str>,
        messages_max: Option<u64>,
    ) -> Result<Subscription, Error> {
        // Whatever separates the words of a request would begin another one.
        for text in [Some(subject.as_str()), group].into_iter().flatten() {
            if text.is_empty() || text.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
                return Err(Error::Subject(text.to_owned()));
            }
        }
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (messages, received) = mpsc::channel(WAITING_MAX);
        let (confirmed, confirmation) = oneshot::channel();
        // Dropped, at whatever point, it ends what the server may have by then.
        let subscription = Subscription { id, received, commands: self.commands.clone() };
        let command = SubscribeCommand { id, subject, group, messages_max, messages, confirmed };
        let lost = || Error::Unreachable("the connection was lost".to_owned());
        self.commands.send(Command::Subscribe(command)).map_err(|_| lost())?;
        confirmation.await.map_err(|_| lost())?;
        Ok(subscription)
    }

    /// Whether there is a connection now.
    pub fn is_connected(&self) -> bool {
        self.state.borrow().is_connected
    }

    /// How often the connection was made so far: 1 as long as it was never lost.
    pub fn connects(&self) -> u64 {
        self.state.borrow().connects
    }
}

/// Messages as they come; it ends when the server sends no more.
#[derive(Debug)]
pub struct Subscription {
    id: u64,
    received: mpsc::Receiver<Message>,
    commands: mpsc::UnboundedSender<Command>,
}

impl Stream for Subscription {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message>> {
        self.received.poll_recv(context)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // Where nobody receives this there is no connection either.
        let _ = self.commands.send(Command::Unsubscribe(self.id));
    }
}

#[cfg(test)]
mod tests;
